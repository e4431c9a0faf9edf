package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"
)

const (
	// ReplayTime is how long an answer is kept for those who ask again with its key.
	ReplayTime = 10 * time.Minute
	// Replayed is the header of an answer that was given before.
	Replayed = "Idempotency-Replayed"
	// maxReplays is how many are kept; the oldest go first.
	maxReplays = 256
	// maxReplay is the most of one: larger ones are not kept.
	maxReplay = 64 << 10
	// maxKey is the longest Idempotency-Key.
	maxKey = 128
)

// replays answers a request that is sent again under the same Idempotency-Key as it was answered
// the first time, so that a script may repeat what it cannot know to have arrived
// (draft-ietf-httpapi-idempotency-key-header). Safe for concurrent use.
type replays struct {
	mu    sync.Mutex // guards all below
	byKey map[string]*replay
	order []string // keys, oldest first
}

// replay is one answer, or the place of one that is being made.
type replay struct {
	asked  [sha256.Size]byte
	at     time.Time
	done   bool
	status int
	header http.Header
	body   []byte
}

func newReplays() *replays { return &replays{byKey: map[string]*replay{}} }

// begin finds the answer to a key, or makes its place: then the caller answers, and ends it. The
// error says that the key stands for another request, or that its answer is being made.
func (s *replays) begin(key string, asked [sha256.Size]byte, now time.Time) (found *replay, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 {
		oldest := s.byKey[s.order[0]]
		if oldest != nil && len(s.order) <= maxReplays && now.Sub(oldest.at) < ReplayTime {
			break
		}
		delete(s.byKey, s.order[0])
		s.order = s.order[1:]
	}
	r := s.byKey[key]
	switch {
	case r == nil:
		s.byKey[key] = &replay{asked: asked, at: now}
		s.order = append(s.order, key)
		return nil, nil
	case r.asked != asked:
		return nil, KeyReused()
	case !r.done:
		return nil, Refused(CodeInFlight, "the request with this Idempotency-Key is being answered: ask again in a second")
	}
	return r, nil
}

// KeyReused says that an Idempotency-Key stands for another request.
func KeyReused() error {
	return Refused(CodeKeyReused, "this Idempotency-Key came with another request within the last %v: take a new key", ReplayTime)
}

// end keeps an answer; nil forgets the place.
func (s *replays) end(key string, answer *recorder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byKey[key]
	if r == nil {
		return
	}
	if answer == nil || answer.large || answer.status == http.StatusTooManyRequests || answer.status >= 500 { // those may be tried again
		delete(s.byKey, key) // its place in order goes with time
		return
	}
	r.done, r.status, r.header, r.body = true, answer.status, answer.header, answer.body.Bytes()
}

// recorder keeps a copy of what is answered.
type recorder struct {
	http.ResponseWriter
	status int
	header http.Header
	body   bytes.Buffer
	large  bool
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.header = status, w.Header().Clone()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.body.Len()+len(b) > maxReplay {
		w.large = true
	} else {
		w.body.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets a response controller reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type onceKey struct{}

// KeyOf names a request by its Idempotency-Key and by who sent it, and what it asks for by a hash;
// both "" without such a key.
func KeyOf(r *http.Request) (key, asked string) {
	x, _ := r.Context().Value(onceKey{}).([2]string)
	return x[0], x[1]
}

// once answers a changing request under an Idempotency-Key once, and repeats the answer after.
func (a *API) once(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if key == "" || r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		if len(key) > maxKey {
			a.Fail(w, r, Invalid("Idempotency-Key", "the Idempotency-Key has %d bytes: want at most %d", len(key), maxKey))
			return
		}
		var body []byte
		if r.Body != nil && r.ContentLength != 0 {
			var err error
			if body, err = a.ReadBody(w, r); err != nil {
				a.Fail(w, r, err)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		h := sha256.New()
		for _, part := range []string{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), r.Header.Get("Accept"), string(body)} {
			sum := sha256.Sum256([]byte(part))
			h.Write(sum[:])
		}
		asked := [sha256.Size]byte(h.Sum(nil))
		whose := sha256.Sum256([]byte(OwnerOf(r.Context()) + "\x00" + key)) // keys of one caller are not another's
		key = hex.EncodeToString(whose[:])
		r = r.WithContext(context.WithValue(r.Context(), onceKey{}, [2]string{key, hex.EncodeToString(asked[:])}))
		found, err := a.replays.begin(key, asked, time.Now())
		switch {
		case err != nil:
			a.Fail(w, r, err)
		case found != nil:
			id := w.Header().Get("X-Request-Id") // names this request
			maps.Copy(w.Header(), found.header)
			w.Header().Set("X-Request-Id", id)
			w.Header().Set(Replayed, "true")
			w.WriteHeader(found.status)
			w.Write(found.body)
		default:
			rec := &recorder{ResponseWriter: w}
			finished := false
			defer func() {
				if !finished { // it panicked
					rec = nil
				}
				a.replays.end(key, rec)
			}()
			next.ServeHTTP(rec, r)
			finished = true
		}
	})
}
