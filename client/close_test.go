package client

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"whorl/client/plan"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// Close takes the journals away while the session's goroutine may be replaying them.
func TestCloseDuringReplay(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Manifest.Hidden = 4
	s := &Session{e: &Engine{cfg: cfg}, chunk: 8, journals: map[int]*journal{}}
	s.ctx, s.kill = t.Context(), func(error) {}
	st := &stage{s: s}
	s.Close()
	if err := s.replay(t.Context(), st, plan.Range{From: 0, To: 5}); err == nil {
		t.Error("a closed session replays")
	}
}

// noDirectory knows nobody.
type noDirectory struct{ Directory }

func (noDirectory) Suspect(swarm.PeerID) {}

// Of several stages lost at once one may refuse the request: the streams of all are ended.
func TestAllLostStagesAreLetGo(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Directory, cfg.Log = noDirectory{}, slog.New(slog.DiscardHandler)
	s := &Session{e: &Engine{cfg: cfg, bans: plan.NewBans(cfg.Bans)}}
	var ends []wire.Stream
	for _, v := range []swarm.Verdict{swarm.Caller, swarm.Elsewhere, swarm.Caller} {
		mine, theirs := wire.Pipe()
		st := &stage{s: s, stream: mine, dead: make(chan struct{})}
		st.mark(swarm.Errorf(swarm.CodeBadRequest, v, "no"))
		s.stages, ends = append(s.stages, st), append(ends, theirs)
	}
	if _, err := s.dropLost(); swarm.AsError(err).Verdict != swarm.Caller {
		t.Errorf("%v", err)
	}
	for i, end := range ends {
		end.SetReadDeadline(time.Now())
		if _, err := end.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the stream to stage %d is still open", i)
		}
	}
}

// A journal keeps to its budget whatever row a server begins with.
func TestJournalBudget(t *testing.T) {
	cfg := DefaultConfig()
	j := &journal{hidden: 4}
	cfg.JournalBytes = 3 * j.pageBytes()
	s := &Session{e: &Engine{cfg: cfg}, journals: map[int]*journal{3: j}}
	for _, c := range []struct {
		end  int
		room bool
	}{{1, true}, {3 * pageRows, true}, {3*pageRows + 1, false}, {100 * pageRows, false}} {
		if got := s.journalRoom(j, c.end); got != c.room {
			t.Errorf("rows up to %d with a budget of %d: room is %v", c.end, 3*pageRows, got)
		}
	}
	j.put(pageRows, make([]float32, pageRows*4)) // the second page, so the first one counts
	if !s.journalRoom(j, pageRows) || !s.journalRoom(j, 3*pageRows) || s.journalRoom(j, 4*pageRows) {
		t.Error("the room with two of three pages taken is wrong")
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
	s := &Session{e: &Engine{cfg: DefaultConfig()}, ctx: t.Context()}
	streams := []*writes{{room: 9}, {room: 1}, {room: 9}}
	for _, w := range streams {
		st := &stage{s: s, stream: w, dead: make(chan struct{}), status: make(chan wire.Status, 1), epoch: 1}
		st.status <- wire.Status{Epoch: 1}
		s.stages = append(s.stages, st)
	}
	err := s.place(t.Context(), s.stages, nil, make([]wire.Route, 3))
	if err == nil || s.stages[1].err == nil || s.stages[0].err != nil || s.stages[2].err != nil {
		t.Errorf("%v; lost: %v, %v, %v", err, s.stages[0].err, s.stages[1].err, s.stages[2].err)
	}
	for i, want := range [][]wire.Type{{wire.TypeOpen, wire.TypeCommit}, {wire.TypeOpen}, {wire.TypeOpen, wire.TypeCommit}} {
		if !slices.Equal(streams[i].types, want) {
			t.Errorf("stage %d was sent %v, want %v", i, streams[i].types, want)
		}
	}
}
