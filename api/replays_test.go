package api

import (
	"crypto/sha256"
	"net/http"
	"testing"
	"time"

	"whorl/swarm"
)

func TestReplays(t *testing.T) {
	s, now := newReplays(), time.Unix(1750000000, 0)
	a, b := sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))
	begin := func(key string, asked [sha256.Size]byte, at time.Duration) (found bool, code swarm.Code) {
		r, err := s.begin(key, asked, now.Add(at))
		if err != nil {
			return false, swarm.CodeOf(err)
		}
		return r != nil, ""
	}
	answer := func(status int) *recorder { return &recorder{status: status, header: http.Header{}} }
	for i, c := range []struct {
		key   string
		asked [sha256.Size]byte
		at    time.Duration
		found bool
		code  swarm.Code
		then  func()
	}{
		{"k", a, 0, false, "", nil},
		{"k", a, 1, false, CodeInFlight, nil},
		{"k", b, 1, false, CodeKeyReused, func() { s.end("k", answer(500)) }},
		{"k", a, 2, false, "", func() { s.end("k", answer(200)) }}, // a failure may be tried again
		{"k", a, 3, true, "", nil},
		{"l", a, 4, false, "", func() { s.end("l", nil) }}, // it panicked
		{"l", b, 5, false, "", nil},
		{"k", b, ReplayTime + 10, false, "", nil}, // forgotten
	} {
		found, code := begin(c.key, c.asked, c.at)
		if found != c.found || code != c.code {
			t.Errorf("case %d: found %v, %q", i, found, code)
		}
		if c.then != nil {
			c.then()
		}
	}
}
