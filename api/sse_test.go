package api

import (
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// slowReader takes its time for each write, and gives up at the deadline.
type slowReader struct {
	*httptest.ResponseRecorder
	deadline time.Time
	each     time.Duration
}

func (s *slowReader) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }

func (s *slowReader) Write(b []byte) (int, error) {
	if done := time.Now().Add(s.each); s.deadline.Before(done) {
		time.Sleep(time.Until(s.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(s.each)
	return len(b), nil
}

// However a reader spreads its slowness, a stream waits for it no longer than the limit; one
// that is quick enough is never dropped.
func TestSlowReader(t *testing.T) {
	for _, c := range []struct {
		each time.Duration
		ends time.Duration // 0: never
	}{{time.Hour, 30 * time.Second}, {29 * time.Second, 30 * time.Second}, {7 * time.Second, 30 * time.Second}, {200 * time.Millisecond, 30 * time.Second}, {50 * time.Millisecond, 0}} {
		synctest.Test(t, func(t *testing.T) {
			a := &API{Config: Config{Limits: DefaultLimits()}}
			e := a.EventStream(&slowReader{ResponseRecorder: httptest.NewRecorder(), each: c.each})
			start := time.Now()
			for i := 0; i < 10_000 && e.Err == nil; i++ {
				e.Send("a token")
			}
			if took := time.Since(start); (e.Err != nil) != (c.ends > 0) || c.ends > 0 && took > c.ends {
				t.Errorf("writes of %v: %v after %v", c.each, e.Err, took)
			}
		})
	}
}
