package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"whorl/internal/backoff"
)

// Hub fetches from one endpoint into one cache. Safe for concurrent use, also with other
// processes on the same cache.
type Hub struct {
	cfg    Config
	client *http.Client
	log    *slog.Logger
	waits  backoff.Policy

	planned, fetched atomic.Int64 // bytes: to fetch in all, and arrived
	found            atomic.Int64 // bytes of opened models that were on the disk before
}

// New makes a Hub. It sends nothing yet.
func New(cfg Config) *Hub {
	h := &Hub{cfg: cfg, log: cfg.Log, waits: backoff.Policy{First: cfg.Pause, Max: 30 * time.Second, Jitter: 0.5}}
	if h.log == nil {
		h.log = slog.Default()
	}
	h.client = &http.Client{Transport: cfg.Transport, CheckRedirect: h.redirect}
	return h
}

// Progress is what was fetched since the Hub was made, and what of the opened models was on the disk then, in bytes.
type Progress struct{ Done, Total, Cached int64 }

// Progress tells how far the transfers are.
func (h *Hub) Progress() Progress {
	return Progress{h.fetched.Load(), h.planned.Load(), h.found.Load()}
}

// maxRedirects is how often an answer may point elsewhere.
const maxRedirects = 10

// redirect follows to wherever the hub keeps its files; the token stays with the hub.
func (h *Hub) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("redirected from https to %s", req.URL.Scheme)
	}
	if req.URL.Host != via[0].URL.Host {
		req.Header.Del("Authorization")
	}
	return nil
}

// get sends one request; rng is a Range header or "". The caller closes the body.
func (h *Hub) get(ctx context.Context, link, rng string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", h.cfg.Agent)
	req.Header.Set("Accept-Encoding", "identity") // the bytes of the file, not of a form of it
	if h.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+h.cfg.Token)
	}
	if rng != "" {
		req.Header.Set("Range", rng)
	}
	return h.client.Do(req)
}

// passing is a failure that may be gone at the next attempt.
type passing struct {
	err   error
	after time.Duration // what the hub asks for; 0: nothing
}

func (p *passing) Error() string { return p.err.Error() }
func (p *passing) Unwrap() error { return p.err }

// retried runs f until it succeeds or fails for good. f tells whether it made progress, after
// which attempts are counted anew.
func (h *Hub) retried(ctx context.Context, f func(context.Context) (progress bool, err error)) error {
	for failures := 1; ; failures++ {
		progress, err := f(ctx)
		var p *passing
		if err == nil || ctx.Err() != nil || !errors.As(err, &p) {
			return err
		}
		if progress {
			failures = 1
		}
		if failures >= h.cfg.Attempts {
			return p.err
		}
		wait := max(h.waits.After(failures, rand.Float64()), min(p.after, time.Minute))
		h.log.Debug("the hub failed, trying again", "in", wait, "reason", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// answered turns a status into an error: nil for 200 and 206. what names what was asked for.
func (h *Hub) answered(r *http.Response, n Name, what string) error {
	code := r.Header.Get("X-Error-Code")
	said := r.Header.Get("X-Error-Message")
	if len(said) > 200 {
		said = said[:200]
	}
	page := h.cfg.Endpoint + "/" + n.Repo
	switch {
	case r.StatusCode == http.StatusOK || r.StatusCode == http.StatusPartialContent:
		return nil
	case code == "GatedRepo" || r.StatusCode == http.StatusForbidden && code == "" && h.cfg.Token != "":
		return failed(ErrGated, nil, "%s is gated: accept its terms at %s with the account of your token, and give the token (HF_TOKEN or --token)", n.Repo, page)
	case code == "RevisionNotFound":
		return failed(ErrNotFound, nil, "%s has no revision %q: see %s/tree/main for those there are", n.Repo, n.revision(), page)
	case code == "EntryNotFound":
		return failed(ErrNotFound, nil, "%s has no file %s in revision %s", n.Repo, what, n.revision())
	case r.StatusCode == http.StatusUnauthorized && h.cfg.Token != "":
		return failed(ErrToken, nil, "the hub does not take the token for %s, or has no such model: check the name, and make a new token at %s/settings/tokens", n.Repo, h.cfg.Endpoint)
	case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusNotFound:
		return failed(ErrNotFound, nil, "the hub at %s has no model %s: check the name, or give a token (HF_TOKEN or --token) if it is private", h.cfg.Endpoint, n.Repo)
	case r.StatusCode == http.StatusForbidden:
		return failed(ErrToken, nil, "the hub forbids %s to strangers: give a token (HF_TOKEN or --token)", n.Repo)
	case r.StatusCode == http.StatusTooManyRequests:
		return &passing{failed(ErrLimited, nil, "the hub limits requests of this address (%s): wait, or give a token (HF_TOKEN or --token)", r.Status), retryAfter(r)}
	case r.StatusCode >= 500 || r.StatusCode == http.StatusRequestTimeout:
		return &passing{failed(ErrReach, nil, "the hub at %s answers %s", h.cfg.Endpoint, r.Status), retryAfter(r)}
	}
	return fmt.Errorf("the hub answers %s for %s of %s %s", r.Status, what, n.Repo, said)
}

func retryAfter(r *http.Response) time.Duration {
	s, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || s < 0 || s > 3600 {
		return 0
	}
	return time.Duration(s) * time.Second
}

// unreachable is what a failed request means.
func (h *Hub) unreachable(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return &passing{err: failed(ErrReach, err, "the hub at %s cannot be reached", h.cfg.Endpoint)}
}

// document fetches a small answer whole.
func (h *Hub) document(ctx context.Context, link string, n Name, what string, limit int64) (body []byte, err error) {
	err = h.retried(ctx, func(ctx context.Context) (bool, error) {
		ctx, alive, stop := h.idle(ctx)
		defer stop()
		r, err := h.get(ctx, link, "")
		if err != nil {
			return false, h.unreachable(err)
		}
		defer r.Body.Close()
		if err := h.answered(r, n, what); err != nil {
			return false, err
		}
		body, err = io.ReadAll(io.LimitReader(alive(r.Body), limit+1))
		if err != nil {
			return false, h.unreachable(err)
		}
		if int64(len(body)) > limit {
			return false, failed(ErrDamaged, nil, "the hub's answer about %s has more than %d bytes", what, limit)
		}
		return false, nil
	})
	return body, err
}

// idle gives a context that ends when what alive wraps gives no byte for too long.
func (h *Hub) idle(ctx context.Context) (_ context.Context, alive func(io.Reader) io.Reader, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(h.cfg.Idle, func() { cancel(fmt.Errorf("no byte came for %v", h.cfg.Idle)) })
	alive = func(r io.Reader) io.Reader {
		return readerFunc(func(p []byte) (int, error) {
			n, err := r.Read(p)
			if n > 0 {
				timer.Reset(h.cfg.Idle)
			}
			if err != nil && !errors.Is(err, io.EOF) && context.Cause(ctx) != nil {
				err = context.Cause(ctx)
			}
			return n, err
		})
	}
	return ctx, alive, func() { timer.Stop(); cancel(nil) }
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// escape makes a path of a file fit an address, slashes kept.
func escape(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
