package server

import (
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// heard is a frame that arrived.
type heard struct {
	t      wire.Type
	status wire.Status
	done   wire.Done
	fail   wire.Fail
	head   wire.RowsHeader
	rows   []float32
	proof  wire.Receipt
}

func (h heard) String() string {
	switch h.t {
	case wire.TypeAccept, wire.TypeStatus:
		return fmt.Sprintf("status %+v", h.status)
	case wire.TypeDone:
		return fmt.Sprintf("done %+v", h.done)
	case wire.TypeFail:
		return fmt.Sprintf("fail %+v", h.fail)
	case wire.TypeRows, wire.TypeJournal:
		return fmt.Sprintf("type %d rows %d:%d of epoch %d", h.t, h.head.Start, h.head.End(), h.head.Epoch)
	}
	return fmt.Sprintf("type %d", h.t)
}

// next reads a frame; it fails the test after a virtual minute.
func (p *peer) next() heard {
	p.t.Helper()
	h, err := p.read(time.Minute)
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	return h
}

func (p *peer) read(limit time.Duration) (heard, error) {
	p.stream.SetReadDeadline(time.Now().Add(limit))
	t, b, err := p.r.Next()
	if err != nil {
		return heard{}, err
	}
	h := heard{t: t}
	switch t {
	case wire.TypeAccept, wire.TypeStatus:
		err = wire.Decode(t, b, &h.status)
	case wire.TypeFail:
		err = wire.Decode(t, b, &h.fail)
	case wire.TypeDone:
		h.done, err = wire.ParseDone(b)
	case wire.TypeReceipt:
		h.proof, err = wire.ParseReceipt(b)
	case wire.TypeRows, wire.TypeJournal:
		var data []byte
		if h.head, data, err = wire.ParseRows(b); err == nil {
			h.rows, err = codec.Decode(nil, h.head.Codec, data, int(h.head.Count)*hidden)
		}
	}
	return h, err
}

// expect reads the next frame, which must be of the given type.
func (p *peer) expect(t wire.Type) heard {
	p.t.Helper()
	h := p.next()
	if h.t != t {
		p.t.Fatalf("got %v, want type %d", h, t)
	}
	return h
}

// until reads frames up to one of the given type and returns it and all before it.
func (p *peer) until(t wire.Type) (heard, []heard) {
	p.t.Helper()
	var before []heard
	for {
		h := p.next()
		if h.t == t {
			return h, before
		}
		before = append(before, h)
	}
}

// position reads until a Done of the given position and returns what came before.
func (p *peer) position(n int) []heard {
	p.t.Helper()
	var all []heard
	for {
		h, before := p.until(wire.TypeDone)
		if all = append(all, before...); int(h.done.Position) == n {
			return all
		}
	}
}

// refusal reads until a Fail and checks its code and verdict.
func (p *peer) refusal(code swarm.Code, v swarm.Verdict) wire.Fail {
	p.t.Helper()
	h, _ := p.until(wire.TypeFail)
	if h.fail.Code != code || h.fail.Verdict != v {
		p.t.Fatalf("got %v, want code %s and verdict %v", h, code, v)
	}
	return h.fail
}

// quiet checks that nothing arrives for a second.
func (p *peer) quiet() {
	p.t.Helper()
	if h, err := p.read(time.Second); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("got %v, %v, want nothing", h, err)
	}
	p.r = rowsReader(p.stream)
}

func (p *peer) close() { p.stream.Reset() }

func equalBits(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}

// bubble runs a test in a synctest bubble with a world that is closed at its end.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		f(t, w)
	})
}

// rowsReader reads what a client or a predecessor reads: rows too.
func rowsReader(s wire.Stream) *wire.Reader {
	r := wire.NewReader(s)
	r.AllowRows(4 * hidden)
	return r
}
