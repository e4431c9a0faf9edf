package p2p

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	lnet "github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"whorl/internal/backoff"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/wire"
)

// moveID names a moving stream of a peer.
type moveID struct {
	peer peer.ID
	id   [16]byte
}

// moveRequest begins a stream or takes one up on another connection: a byte that tells which,
// the id, how many bytes the asker has, and the protocol with its length in a byte.
type moveRequest struct {
	resume bool
	id     [16]byte
	got    uint64
	proto  string
}

const moveRequestHead = 1 + 16 + 8 + 1

func (r moveRequest) encode() []byte {
	b := make([]byte, 0, moveRequestHead+len(r.proto))
	b = append(b, 0)
	if r.resume {
		b[0] = 1
	}
	b = append(b, r.id[:]...)
	b = binary.BigEndian.AppendUint64(b, r.got)
	return append(append(b, byte(len(r.proto))), r.proto...)
}

// readMoveRequest reads one of a stranger: 281 bytes at most.
func readMoveRequest(r io.Reader) (q moveRequest, err error) {
	var head [moveRequestHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return q, err
	}
	if head[0] > 1 {
		return q, fmt.Errorf("a request to move of kind %d", head[0])
	}
	q.resume, q.got = head[0] == 1, binary.BigEndian.Uint64(head[17:])
	copy(q.id[:], head[1:17])
	proto := make([]byte, head[25])
	if _, err := io.ReadFull(r, proto); err != nil {
		return q, err
	}
	q.proto = string(proto)
	if !q.resume && q.got != 0 {
		return q, errors.New("a new stream of which something is there")
	}
	return q, nil
}

// The answers to a request: a byte, and how many bytes the far end has.
const (
	moveYes = 1 + iota
	moveNo  // no such stream, or no room
)

// dialMoving opens a stream that outlives its connection.
func (h *Host) dialMoving(ctx context.Context, id peer.ID, proto string) (wire.Stream, error) {
	if len(proto) > 255 {
		return nil, fmt.Errorf("protocol %.40q: its name is too long", proto)
	}
	q := moveRequest{proto: proto}
	rand.Read(q.id[:])
	m, err := h.newMoving(moveID{id, q.id}, true, "", budget.Who{}, func(m *moving) {
		m.mu.Lock()
		via := m.via
		m.mu.Unlock()
		if via != "" { // libp2p may say so only after the next dial has begun
			h.relayEnded(via)
		}
		if !h.background(func() { h.redial(m, id, q) }) {
			m.fail(errMoveLost, false)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := h.carry(ctx, m, id, q); err != nil {
		m.fail(err, false)
		return nil, err
	}
	return m, nil
}

// newMoving makes one end and gives it a place.
func (h *Host) newMoving(name moveID, opened bool, net string, who budget.Who, lost func(*moving)) (*moving, error) {
	if err := h.door.streams.Take(1, who); err != nil { // what it keeps, beside what its carrier takes
		return nil, err
	}
	m := newMoving(net, lost, func() {
		h.door.streams.Give(1, who)
		h.mu.Lock()
		delete(h.moving, name)
		h.mu.Unlock()
	})
	m.opened = opened
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, taken := h.moving[name]; taken || h.closed {
		h.door.streams.Give(1, who)
		return nil, errors.New("a stream of that name is there already, or this node ends")
	}
	h.moving[name] = m
	return m, nil
}

// carry asks the far end to begin or to go on over the best connection that there is.
func (h *Host) carry(ctx context.Context, m *moving, id peer.ID, q moveRequest) error {
	ctx, cancel := context.WithTimeout(ctx, moveAttach)
	defer cancel()
	if err := h.connect(ctx, id); err != nil {
		return err
	}
	s, err := h.h.NewStream(ctx, id, protoMove)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	got, turn, ok := m.freeze()
	if !ok {
		s.Reset()
		return nil // it has ended meanwhile
	}
	q.got = got
	var answer [1 + 8]byte
	if _, err = s.Write(q.encode()); err == nil {
		_, err = io.ReadFull(s, answer[:])
	}
	switch {
	case err == nil && answer[0] != moveYes:
		err = errRefused
	case err == nil && !m.attach(s, turn, binary.BigEndian.Uint64(answer[1:])):
		err = errors.New("the far end has another part of the stream")
	}
	if err != nil {
		s.Reset()
		return err
	}
	at := s.Conn().RemoteMultiaddr()
	m.mu.Lock()
	m.via = ""
	if isRelayed(at) {
		m.via = relayOf(at)
	}
	m.mu.Unlock()
	if isRelayed(at) {
		h.log.Debug("stream through a relay", "peer", id, "protocol", q.proto, "via", relayOf(at))
	} else {
		h.log.Info("a stream moves from a relay to a direct connection", "peer", id, "protocol", q.proto, "addr", at)
	}
	return nil
}

var errRefused = errors.New("the far end does not know the stream, or has no room")

// redial goes on over another connection, if there is one in time.
func (h *Host) redial(m *moving, id peer.ID, q moveRequest) {
	ctx, cancel := context.WithTimeout(h.live, moveGrace)
	defer cancel()
	q.resume = true
	p := backoff.Policy{First: 50 * time.Millisecond, Max: time.Second}
	for n := 1; ; n++ {
		err := h.carry(ctx, m, id, q)
		if err == nil {
			return
		}
		if errors.Is(err, errRefused) || !backoff.Wait(ctx, p.After(n, 0)) {
			m.fail(fmt.Errorf("%w: %s", errMoveLost, reason(err)), false)
			return
		}
	}
}

// moveUp takes streams that go through a relay to a direct connection that there is now. The
// end that opened a stream moves it.
func (h *Host) moveUp(c lnet.Conn) {
	if isRelayed(c.RemoteMultiaddr()) {
		return
	}
	h.mu.Lock()
	var mine []*moving
	for name, m := range h.moving {
		if name.peer == c.RemotePeer() && m.opened {
			mine = append(mine, m)
		}
	}
	h.mu.Unlock()
	for _, m := range mine {
		m.mu.Lock()
		at, turn := m.carried, m.turn
		m.mu.Unlock()
		if s, ok := at.(lnet.Stream); ok && isRelayed(s.Conn().RemoteMultiaddr()) {
			m.detach(at, turn)
		}
	}
}

// answerMove is the far end of carry.
func (h *Host) answerMove(s lnet.Stream) {
	s.SetDeadline(time.Now().Add(moveAttach))
	q, err := readMoveRequest(s)
	if err != nil {
		s.Reset()
		return
	}
	h.hush(q.proto)
	from := s.Conn().RemotePeer()
	name := moveID{from, q.id}
	h.mu.Lock()
	m, f := h.moving[name], h.handlers[protocol.ID(q.proto)]
	h.mu.Unlock()
	switch {
	case q.resume && m != nil && !m.opened:
		if got, turn, ok := m.freeze(); ok {
			h.agree(s, m, got, turn, q.got)
			return
		}
	case !q.resume && m == nil && f != nil:
		net := h.NetOf(s.Conn().RemoteMultiaddr())
		m, err := h.newMoving(name, false, net, budget.Who{Peer: string(from), Net: net}, h.await)
		if err != nil {
			break
		}
		_, turn, _ := m.freeze()
		if !h.agree(s, m, 0, turn, 0) || !h.background(func() { f(swarm.PeerID(from.String()), m) }) {
			m.fail(errMoveLost, true)
		}
		return
	}
	s.Write(append([]byte{moveNo}, make([]byte, 8)...))
	s.Close()
}

// agree answers that a stream goes on, and lets it.
func (h *Host) agree(s lnet.Stream, m *moving, got uint64, turn int, theirs uint64) bool {
	_, err := s.Write(binary.BigEndian.AppendUint64([]byte{moveYes}, got))
	s.SetDeadline(time.Time{})
	if err == nil && m.attach(s, turn, theirs) {
		return true
	}
	s.Reset()
	h.await(m)
	return false
}

// await gives the one who opened a stream some time to take it up again.
func (h *Host) await(m *moving) {
	m.mu.Lock()
	turn := m.turn
	m.mu.Unlock()
	time.AfterFunc(moveGrace, func() {
		m.mu.Lock()
		gone := turn == m.turn && m.carried == nil
		m.mu.Unlock()
		if gone {
			m.fail(errMoveLost, false)
		}
	})
}

// moves tells whether a stream to a peer should outlive its connection: it would go through a
// relay, and the peer can do it.
func (h *Host) moves(id peer.ID, proto string) bool {
	if proto == wire.ProtoDirectory || h.direct(id) {
		return false
	}
	known, err := h.h.Peerstore().SupportsProtocols(id, protoMove)
	return err == nil && len(known) > 0
}
