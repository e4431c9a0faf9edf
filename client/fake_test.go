package client_test

import (
	"bufio"
	"context"
	"sync"

	"whorl/internal/swarmtest"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// The fake model is that of swarmtest, whose blocks are restated here.
const (
	hidden = 4
	vocab  = swarmtest.FakeVocab
	blocks = swarmtest.FakeBlocks
)

// fakeBlocks computes rows through blocks [from, to) given the inputs of all positions.
func fakeBlocks(inputs [][hidden]float32, from, to int) [][hidden]float32 {
	rows := append([][hidden]float32(nil), inputs...)
	for b := from; b < to; b++ {
		var sum [hidden]float32
		for p := range rows {
			for i := range hidden {
				sum[i] += rows[p][i]
			}
			for i := range hidden {
				mean := sum[(i+1)%hidden] / float32(p+1)
				rows[p][i] = rows[p][i]*0.75 + mean*0.5 + float32(b%3)*0.125
			}
		}
	}
	return rows
}

// fakeServer is the plainest stage that follows the protocol: one goroutine per stream,
// everything under one lock.
type fakeServer struct {
	node    *swarmtest.Node
	dir     *swarmtest.PeerDirectory
	span    swarm.Span
	refuse  error  // answer to Open
	noPush  bool   // computes but never passes anything on
	journal int    // rows of journal it keeps; -1 for all
	dieAt   int    // dies after computing that many rows, 0 never
	lie     int    // the position that it gives when it accepts
	shrinks bool   // goes back one row further than it is told
	spoils  bool   // accepts sessions and fails at every row
	blames  string // puts a failure at every row down to that peer, or to its successor ("next")

	mu       sync.Mutex // guards all below
	sessions map[wire.SessionID]*fakeSession
	rows     int // computed in all
	opens    int // frames of these types
	routes   int
}

type fakeSession struct {
	control wire.Stream
	push    wire.Stream
	pushTo  swarm.PeerID
	open    wire.Open
	route   wire.Route
	inputs  [][hidden]float32
}

func newFakeServer(net *swarmtest.Net, dir *swarmtest.Directory, id swarm.PeerID, m swarm.Manifest, span swarm.Span) *fakeServer {
	s := &fakeServer{node: net.Node(id), dir: dir.For(id), span: span, journal: -1, sessions: map[wire.SessionID]*fakeSession{}}
	s.node.Handle(wire.ProtoSession, s.control)
	s.node.Handle(wire.ProtoPush, s.pushed)
	err := s.dir.Announce(context.Background(), swarm.Record{
		Protocol: wire.Version, UID: m.UID(), Manifest: m, Span: span, State: swarm.Online,
		Version: "test", CacheTotal: 1 << 20, CacheLeft: 1 << 20, MaxLength: 4096,
	})
	if err != nil {
		panic(err)
	}
	return s
}

func (s *fakeServer) control(_ context.Context, from swarm.PeerID, stream wire.Stream) {
	r := wire.NewReader(bufio.NewReader(stream))
	r.AllowRows(1 << 10)
	var x *fakeSession
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if x != nil {
			delete(s.sessions, x.open.Session)
			if x.push != nil {
				x.push.Reset()
			}
		}
	}()
	for {
		t, p, err := r.Next()
		if err != nil {
			return
		}
		s.mu.Lock()
		switch t {
		case wire.TypeOpen:
			x = &fakeSession{control: stream}
			s.opens++
			if wire.Decode(t, p, &x.open) != nil || !s.span.Contains(x.open.Span) {
				panic("bad open")
			}
			x.route = x.open.Route
			if s.refuse != nil {
				stream.Write(wire.AppendJSON(nil, wire.TypeFail, wire.NewFail(x.route.Epoch, s.refuse)))
				break
			}
			s.sessions[x.open.Session] = x
			stream.Write(wire.AppendJSON(nil, wire.TypeAccept, wire.Status{Epoch: x.route.Epoch, Position: s.lie, Mode: x.open.Mode}))
		case wire.TypeRoute:
			x.route = wire.Route{}
			if wire.Decode(t, p, &x.route) != nil {
				panic("bad route")
			}
			s.routes++
			keep := min(len(x.inputs), x.route.Truncate)
			if s.shrinks {
				keep = max(0, keep-1)
			}
			x.inputs = x.inputs[:keep]
			s.status(x)
		case wire.TypeAsk:
			s.status(x)
		case wire.TypeRows:
			s.take(x, p)
		}
		s.mu.Unlock()
	}
}

func (s *fakeServer) status(x *fakeSession) {
	x.control.Write(wire.AppendJSON(nil, wire.TypeStatus, wire.Status{Epoch: x.route.Epoch, Position: len(x.inputs)}))
}

func (s *fakeServer) pushed(_ context.Context, from swarm.PeerID, stream wire.Stream) {
	r := wire.NewReader(bufio.NewReader(stream))
	r.AllowRows(1 << 10)
	for {
		t, p, err := r.Next()
		if err != nil {
			return
		}
		if t != wire.TypeRows {
			continue
		}
		s.mu.Lock()
		h, _, _ := wire.ParseRows(p)
		if x := s.sessions[h.Session]; x != nil && x.route.Prev == from {
			s.take(x, p)
		}
		s.mu.Unlock()
	}
}

// take computes a frame of rows and passes the result on.
func (s *fakeServer) take(x *fakeSession, p []byte) {
	h, data, err := wire.ParseRows(p)
	if err != nil || h.Epoch != x.route.Epoch {
		return
	}
	if s.spoils {
		x.control.Write(wire.AppendJSON(nil, wire.TypeFail, wire.NewFail(h.Epoch, swarm.Errorf(swarm.CodeBadOutput, swarm.Elsewhere, "spoilt"))))
		return
	}
	if s.blames != "" {
		to := swarm.PeerID(s.blames)
		if to == "next" {
			to = x.route.Next
		}
		x.control.Write(wire.AppendJSON(nil, wire.TypeFail, wire.NewFail(h.Epoch, &swarm.Error{
			Code: swarm.CodePeerLost, Verdict: swarm.Elsewhere, Message: "lost", Peer: to})))
		return
	}
	values, err := codec.Decode(nil, h.Codec, data, int(h.Count)*hidden)
	if err != nil || len(values) != int(h.Count)*hidden {
		panic("bad rows")
	}
	if int(h.Start) > len(x.inputs) {
		x.control.Write(wire.AppendJSON(nil, wire.TypeFail, wire.NewFail(h.Epoch, swarm.Errorf(swarm.CodeGap, swarm.Replay,
			"rows from %d at %d", h.Start, len(x.inputs)))))
		return
	}
	before := len(x.inputs)
	for i := range int(h.Count) {
		if int(h.Start)+i >= before {
			x.inputs = append(x.inputs, [hidden]float32(values[i*hidden:(i+1)*hidden]))
			s.rows++
		}
	}
	if s.dieAt > 0 && s.rows >= s.dieAt {
		go s.node.Kill()
		return
	}
	out := fakeBlocks(x.inputs, x.open.Span.Start, x.open.Span.End)
	send := func(to wire.Stream, t wire.Type, from int) {
		if from = max(from, before); from >= len(out) || to == nil {
			return
		}
		g := h
		g.Start, g.Count = uint32(from), uint32(len(out)-from)
		var flat []float32
		for _, row := range out[from:] {
			flat = append(flat, row[:]...)
		}
		to.Write(wire.AppendFrame(nil, t, g.Append(nil), codec.Append(nil, codec.F32, flat)))
	}
	switch {
	case s.noPush:
	case x.route.Next == "":
		send(x.control, wire.TypeRows, int(h.Want))
	default:
		s.connect(x)
		send(x.push, wire.TypeRows, x.route.Skip)
		if x.route.Journal >= 0 && (s.journal < 0 || len(out) <= s.journal) {
			send(x.control, wire.TypeJournal, x.route.Journal)
		}
	}
	x.control.Write(wire.AppendFrame(nil, wire.TypeDone, wire.Done{Epoch: h.Epoch, Position: uint32(len(x.inputs)), Step: h.Step}.Append(nil)))
}

// connect opens the push stream to the present successor.
func (s *fakeServer) connect(x *fakeSession) {
	if x.push != nil && x.pushTo == x.route.Next {
		return
	}
	if x.push != nil {
		x.push.Reset()
	}
	next, err := s.node.Dial(context.Background(), x.route.Next, wire.ProtoPush)
	if err != nil {
		x.push = nil
		x.control.Write(wire.AppendJSON(nil, wire.TypeFail, wire.NewFail(x.route.Epoch, &swarm.Error{
			Code: swarm.CodePeerLost, Verdict: swarm.Elsewhere, Message: err.Error(), Peer: x.route.Next})))
		return
	}
	next.Write(wire.AppendJSON(nil, wire.TypeHello, wire.Hello{Version: wire.Version, Session: x.open.Session, Epoch: x.route.Epoch}))
	x.push, x.pushTo = next, x.route.Next
}
