package server

import (
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// hostile serves bytes from a stranger on both kinds of streams beside an honest session,
// which must not notice; nothing may panic and nothing may be left behind.
func hostile(t *testing.T, control, push []byte) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		w.successor("next")
		honest := w.opened(n, "honest", middle, func(o *wire.Open) { o.Session = wire.SessionID{9} })
		in := input(1, 8)

		victim := w.stage(n, func(o *wire.Open) { o.Session, o.Route.Epoch = wire.SessionID{2}, 1 })

		bad := w.dial(n, "stranger") // after the others: what it reserves is not theirs any more
		bad.stream.Write(control)
		for _, from := range []swarm.PeerID{"prev", "stranger"} {
			a, b := wire.Pipe()
			w.tasks.Go(func() { n.ServePush(w.ctx, from, b) })
			a.Write(push)
			defer a.Reset()
		}
		for i := range 8 {
			honest.rows(in, i, i+1, i)
			if h := honest.expect(wire.TypeRows); !equalBits(h.rows, reference(in, 2, 4)[i*hidden:(i+1)*hidden]) {
				t.Errorf("the honest session got %v", h)
			}
			honest.expect(wire.TypeDone)
		}
		bad.close()
		victim.close()
		honest.close()
		time.Sleep(n.cfg.Timeouts.Hello + n.cfg.Timeouts.Open) // early push streams have given up
		n.idle(t)
	})
}

func FuzzStreams(f *testing.F) {
	in := input(1, 4)
	open := wire.AppendJSON(nil, wire.TypeOpen, named(openMsg(middle)))
	commit := wire.AppendFrame(nil, wire.TypeCommit)
	head := wire.RowsHeader{Session: wire.SessionID{1}, Epoch: 1, Count: 4, Codec: 1}
	rows := rowsFrame(head, in)
	route := wire.AppendJSON(nil, wire.TypeRoute, wire.Route{Epoch: 2, Prev: "prev", Next: "next", Journal: 0})
	hello := wire.AppendJSON(nil, wire.TypeHello, wire.Hello{Version: wire.Version, Session: wire.SessionID{2}, Epoch: 1})
	head.Session = wire.SessionID{2}
	pushed := rowsFrame(head, in)
	cat := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	f.Add([]byte{}, []byte{})
	f.Add(cat(open, commit, rows, route, rows, wire.AppendFrame(nil, wire.TypeAsk)), cat(hello, pushed, pushed))
	f.Add(cat(open, rows, commit), cat(hello, hello))
	f.Add(cat(commit, open), pushed)
	f.Add(cat(open, open), cat(hello, commit))
	f.Add([]byte{255, 255, 255, 1, 4, 9}, []byte{255, 255, 255, 255, 11})
	f.Add(cat(open, commit, wire.AppendFrame(nil, wire.TypeRoute, []byte(`{"epoch":4294967295,"truncate":-5}`))), hello)
	f.Add(cat(open, commit, wire.AppendFrame(nil, wire.TypeRoute, []byte(`{"epoch":9,"next":"next","skip":16777216,"journal":16777216}`)), rows), hello)
	several := openMsg(middle)
	several.Sequences, several.MaxLength = 3, 60 // fits beside the others' reservations
	var searched []byte
	for step, parents := range [][3]uint8{{}, {2, 0, 1}, {1, 1, 1}} {
		h := wire.RowsHeader{Session: wire.SessionID{1}, Epoch: 1, Start: uint32(4 + 3*step), Count: 3, Codec: 1, Beams: wire.Beams{N: 3, Fork: 4}}
		copy(h.Beams.Parents[:], parents[:])
		searched = append(searched, rowsFrame(h, in[:3*hidden])...)
	}
	opened := wire.AppendJSON(nil, wire.TypeOpen, named(several))
	back := wire.AppendJSON(nil, wire.TypeRoute, wire.Route{Epoch: 2, Truncate: 8, Next: "next", Journal: 0})
	f.Add(cat(opened, commit, rows, searched, back, rows), cat(hello, pushed))
	f.Add(cat(opened, commit, rows, searched, rows, searched), hello)
	several.Receipts = testNonce
	opened, ask := wire.AppendJSON(nil, wire.TypeOpen, named(several)), wire.AppendFrame(nil, wire.TypeReceipt)
	f.Add(cat(opened, commit, ask, rows, ask, searched, ask, ask, back, ask, rows), hello)
	f.Add(cat(opened, ask), cat(hello, ask))
	f.Fuzz(hostile)
}
