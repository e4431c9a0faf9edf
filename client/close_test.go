package client

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"whorl/client/chain"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// Close takes the journals away while the session's goroutine may be replaying them.
func TestCloseDuringReplay(t *testing.T) {
	s := &Session{e: &Engine{cfg: DefaultConfig()}, why: errClosed}
	w := &writes{room: 9}
	st := &stage{s: s, hop: swarm.Hop{Span: swarm.Span{Start: 3, End: 6}}, stream: w}
	if embedded, err := s.send(st, &chain.Action{Kind: chain.Send, To: 5}); embedded != nil || err != nil || len(w.types) > 0 {
		t.Errorf("a closed session replays: %v %v, sent %v", embedded, err, w.types)
	}
}

// writes records frames until it breaks.
type writes struct {
	wire.Stream
	types []wire.Type
	room  int
}

func (w *writes) SetWriteDeadline(time.Time) error { return nil }

func (w *writes) Write(p []byte) (int, error) {
	if len(w.types) == w.room {
		return 0, errors.New("gone")
	}
	t, _, err := wire.NewReader(bytes.NewReader(p)).Next()
	w.types = append(w.types, t)
	return len(p), err
}

// A stage that is gone when it should be committed does not keep the others from it: they
// stay on the chain.
func TestOthersAreCommitted(t *testing.T) {
	s := &Session{e: &Engine{cfg: DefaultConfig()}}
	streams := []*writes{{room: 9}, {room: 1}, {room: 9}}
	for round, a := range []chain.Action{{Kind: chain.Open}, {Kind: chain.Commit}} {
		for i, w := range streams {
			e := s.do(t.Context(), &a, &stage{s: s, id: i, stream: w}, false)
			if lost := round == 1 && i == 1; lost != (e.Kind == chain.Lost && e.Stage == i && e.What == swarm.Vanished) {
				t.Errorf("round %d, stage %d: event %+v", round, i, e)
			}
		}
	}
	for i, want := range [][]wire.Type{{wire.TypeOpen, wire.TypeCommit}, {wire.TypeOpen}, {wire.TypeOpen, wire.TypeCommit}} {
		if !slices.Equal(streams[i].types, want) {
			t.Errorf("stage %d was sent %v, want %v", i, streams[i].types, want)
		}
	}
}
