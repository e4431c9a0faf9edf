package wire

import (
	"io"
	"os"
	"sync"
	"time"
)

// pipeWindow is how many bytes one direction of a Pipe holds before writes wait: about
// what a yamux stream allows, so that memory and network behave alike.
const pipeWindow = 1 << 20

// Pipe makes two ends of an in-memory stream: what nodes of one process talk through, and
// what tests use instead of a network.
func Pipe() (Stream, Stream) {
	a, b := newHalf(), newHalf()
	return &pipeEnd{in: a, out: b}, &pipeEnd{in: b, out: a}
}

// half is one direction.
type half struct {
	mu     sync.Mutex // guards all below
	cond   sync.Cond
	buf    []byte
	off    int  // bytes of buf already read
	eof    bool // writer closed
	reset  bool
	rd, wd deadline
}

// deadline of one kind of call; the timer wakes those who wait when it passes.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newHalf() *half {
	h := &half{}
	h.cond.L = &h.mu
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.reset:
			return 0, io.ErrClosedPipe
		case h.off < len(h.buf):
			n := copy(p, h.buf[h.off:])
			h.off += n
			if h.off == len(h.buf) {
				h.buf, h.off = h.buf[:0], 0
			}
			h.cond.Broadcast()
			return n, nil
		case h.eof:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		case h.rd.passed():
			return 0, os.ErrDeadlineExceeded
		}
		h.cond.Wait()
	}
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	done := 0
	for {
		switch {
		case h.reset || h.eof:
			return done, io.ErrClosedPipe
		case done == len(p):
			return done, nil
		case h.wd.passed():
			return done, os.ErrDeadlineExceeded
		}
		if room := pipeWindow - (len(h.buf) - h.off); room > 0 {
			if h.off > 0 && len(h.buf)+min(room, len(p)-done) > cap(h.buf) {
				h.buf = h.buf[:copy(h.buf, h.buf[h.off:])]
				h.off = 0
			}
			n := min(room, len(p)-done)
			h.buf = append(h.buf, p[done:done+n]...)
			done += n
			h.cond.Broadcast()
			continue
		}
		h.cond.Wait()
	}
}

// set moves one of the two deadlines, of which there is at most one timer.
func (h *half) set(d *deadline, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	*d = deadline{at: t}
	h.cond.Broadcast()
	if t.IsZero() || d.passed() {
		return
	}
	d.timer = time.AfterFunc(time.Until(t), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.cond.Broadcast()
	})
}

func (h *half) end(eof, reset bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.eof = h.eof || eof
	h.reset = h.reset || reset
	h.cond.Broadcast()
}

type pipeEnd struct{ in, out *half }

func (e *pipeEnd) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *pipeEnd) Write(p []byte) (int, error) { return e.out.write(p) }

// Close ends writing cleanly; the other end reads what is left, then io.EOF, and its
// writes fail.
func (e *pipeEnd) Close() error {
	e.out.end(true, false)
	e.in.end(true, false)
	return nil
}

func (e *pipeEnd) Reset() error {
	e.out.end(false, true)
	e.in.end(false, true)
	return nil
}

func (e *pipeEnd) SetReadDeadline(t time.Time) error {
	e.in.set(&e.in.rd, t)
	return nil
}

func (e *pipeEnd) SetWriteDeadline(t time.Time) error {
	e.out.set(&e.out.wd, t)
	return nil
}

func (e *pipeEnd) SetDeadline(t time.Time) error {
	e.SetReadDeadline(t)
	return e.SetWriteDeadline(t)
}
