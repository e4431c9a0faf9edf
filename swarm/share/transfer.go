package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// transfer is one Fetch.
type transfer struct {
	c      *Client
	o      Object
	hashes []content.Hash
	sink   func(piece int, data []byte) error

	mu      sync.Mutex // guards all below
	q       *queue
	active  map[swarm.PeerID]*visit    // nil while it is dialled
	resting map[swarm.PeerID]time.Time // until when a peer is left alone
	asked   map[swarm.PeerID]bool
	last    error         // of a peer
	fatal   error         // of the sink
	moved   time.Time     // when bytes last came
	checked int           // pieces that came and are not written down yet
	changed chan struct{} // closed when anything of this changes
}

// Fetch gets pieces of an object, whose trees are known, from several peers at once. sink is
// called for each piece once, by several goroutines; the data is right, and valid until it
// returns. A *Missing says what nobody has.
func (c *Client) Fetch(ctx context.Context, o Object, hashes []content.Hash, want []int, sink func(piece int, data []byte) error) error {
	if !o.Fits(hashes) {
		return fmt.Errorf("%d trees of pieces do not make the object %s", len(hashes), o.Root.Short())
	}
	for _, i := range want {
		if i < 0 || i >= o.Pieces() {
			return fmt.Errorf("piece %d of an object of %d", i, o.Pieces())
		}
	}
	t := &transfer{
		c: c, o: o, hashes: hashes, sink: sink, q: newQueue(want), active: map[swarm.PeerID]*visit{},
		resting: map[swarm.PeerID]time.Time{}, asked: map[swarm.PeerID]bool{}, moved: time.Now(), changed: make(chan struct{}),
	}
	return t.run(ctx)
}

func (t *transfer) run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		t.mu.Lock()
		changed := t.changed
		done, fatal := t.q.done(), t.fatal
		t.mu.Unlock()
		switch {
		case fatal != nil:
			return fatal
		case done:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		for _, p := range t.recruits(time.Now()) {
			workers.Go(func() { t.dismiss(p, t.work(ctx, p)) })
		}
		if err := t.stuck(time.Now()); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// touch wakes those who wait for a change. mu is held.
func (t *transfer) touch() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// recruits chooses peers to be asked from now on.
func (t *transfer) recruits(now time.Time) (out []swarm.PeerID) {
	all := t.c.sources()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range all {
		if _, busy := t.active[p]; busy || len(t.active) >= t.c.cfg.Parallel || now.Before(t.resting[p]) {
			continue
		}
		t.active[p], t.asked[p] = nil, true
		out = append(out, p)
	}
	return out
}

// dismiss notes how a peer's part ended.
func (t *transfer) dismiss(p swarm.PeerID, err error) {
	if errors.Is(err, ErrWrong) {
		t.c.blame(p, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.q.leave(p)
	delete(t.active, p)
	t.resting[p] = time.Now().Add(again)
	if err != nil {
		t.last = err
	}
	if errors.Is(err, ErrWrong) { // whether or not the caller avoids it from now on
		t.resting[p] = time.Now().Add(24 * time.Hour)
	}
	t.touch()
}

// stuck says what is missing once nothing has come for too long.
func (t *transfer) stuck(now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.active {
		if v == nil {
			continue
		}
		if at := time.Unix(0, v.heard.Load()); at.After(t.moved) && len(t.q.asked(v.peer)) > 0 {
			t.moved = at
		}
	}
	if now.Sub(t.moved) < t.c.cfg.Patience || t.checked > 0 { // a slow disk is no peer's fault
		return nil
	}
	return &Missing{Object: t.o, Lacking: append([]int(nil), t.q.wanted...), Asked: len(t.asked), Last: t.last}
}

// work asks one peer for pieces until nothing is wanted, or it has nothing more to give.
func (t *transfer) work(ctx context.Context, p swarm.PeerID) error {
	v, err := t.c.open(ctx, p, t.o)
	if err != nil {
		return err
	}
	defer v.close()
	t.mu.Lock()
	t.active[p] = v
	t.q.join(p, v.have.Has)
	t.mu.Unlock()
	came := make(chan arrival) // one is checked and written while the next one comes
	var checker sync.WaitGroup
	var bad error // that it found
	checker.Go(func() { bad = t.check(v, came) })
	err = t.read(ctx, v, came)
	close(came)
	checker.Wait()
	return cmp.Or(bad, err)
}

// arrival is a piece as it came.
type arrival struct {
	piece   int
	data    []byte
	release func()
}

// check compares what came with its hash and hands it on. It returns once there is no more, and
// says what was wrong; nothing more is read then.
func (t *transfer) check(v *visit, came <-chan arrival) (bad error) {
	for a := range came {
		if bad == nil {
			if from, to := t.o.span(a.piece); int64(len(a.data)) != to-from || content.Tree(a.data) != t.hashes[a.piece] {
				bad = wrong(v.peer, "sent %d bytes for piece %d of %s that are not it", len(a.data), a.piece, t.o.Root.Short())
				v.s.Reset()
			} else {
				t.take(v.peer, a.piece, a.data)
			}
		}
		a.release()
		t.mu.Lock()
		t.checked--
		t.mu.Unlock()
	}
	return bad
}

// read asks for pieces and hands on what comes.
func (t *transfer) read(ctx context.Context, v *visit, came chan<- arrival) error {
	p := v.peer
	var owed []int // pieces asked for, in order
	lacks, looked := 0, time.Now()
	for {
		more, err := t.order(v, &owed)
		if err != nil {
			return err
		}
		if len(owed) == 0 {
			if !more || !t.useful(p) { // another may have its place, and it is asked again later
				return nil
			}
			if time.Since(looked) > again { // it may have got something meanwhile
				looked = time.Now()
				if err := t.again(v); err != nil {
					return err
				}
			}
			if !t.wait(ctx) {
				return nil
			}
			continue
		}
		data, err := v.read(owed[0])
		if err != nil {
			return err
		}
		piece := owed[0]
		owed = owed[1:]
		if len(data) == 0 {
			if lacks++; lacks > maxLacks {
				return fmt.Errorf("%s has not what it says it has", p.Short())
			}
			t.mu.Lock()
			t.q.lacks(p, piece)
			t.touch()
			t.mu.Unlock()
			continue
		}
		t.mu.Lock()
		t.checked++
		t.mu.Unlock()
		came <- arrival{piece, data, v.r.Keep()}
	}
}

// order asks for pieces ahead. It tells whether anything is still wanted.
func (t *transfer) order(v *visit, owed *[]int) (more bool, err error) {
	var frames []byte
	t.mu.Lock()
	more = !t.q.done() && t.fatal == nil
	for more && len(*owed) < ahead {
		i, ok := t.q.next(v.peer, time.Now())
		if !ok {
			break
		}
		*owed = append(*owed, i)
		frames = wire.AppendNumber(frames, wire.TypePiece, i)
	}
	t.mu.Unlock()
	if len(frames) > 0 {
		err = v.ask(frames)
	}
	return more, err
}

// useful tells whether a peer has anything that is wanted.
func (t *transfer) useful(p swarm.PeerID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.q.useful(p)
}

// again hears anew what a peer has.
func (t *transfer) again(v *visit) error {
	if err := v.ask(wire.AppendFrame(nil, wire.TypeHave)); err != nil {
		return err
	}
	if err := v.look(); err != nil {
		return err
	}
	if v.have.Size != t.o.Size {
		return v.otherSize(t.o)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.q.join(v.peer, v.have.Has)
	return nil
}

// wait waits for a change or a while; false once ctx ended.
func (t *transfer) wait(ctx context.Context) bool {
	t.mu.Lock()
	changed := t.changed
	t.mu.Unlock()
	late := time.NewTimer(look)
	defer late.Stop()
	select {
	case <-changed:
	case <-late.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// take hands a piece on, unless another peer was quicker.
func (t *transfer) take(p swarm.PeerID, piece int, data []byte) {
	t.mu.Lock()
	first := t.q.claim(piece)
	t.mu.Unlock()
	if !first {
		return
	}
	err := t.sink(piece, data)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && t.fatal == nil {
		t.fatal = err
	}
	t.q.got(p, piece, time.Now())
	t.moved = time.Now()
	t.touch()
}
