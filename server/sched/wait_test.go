package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// In any chain with any clients: no iteration waits for longer than a share of what
// everybody's rows take, and nobody starves.
func TestWaitsAreBoundedAndNobodyStarves(t *testing.T) {
	const long = 6 * time.Second
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		var engines []engine
		for range 1 + r.IntN(3) {
			base := 2 + 20*r.Float64()
			engines = append(engines, engine{base, base * 0.1 * r.Float64(), base * (0.1 + 0.1*r.Float64())})
		}
		var clients []simClient
		for i := range 1 + r.IntN(10) {
			c := simClient{away: 0.2 + 3*r.Float64(), answer: 40 + r.IntN(200), prompt: 1 + r.IntN(60), label: fmt.Sprint(i), from: ms(300 * r.Float64())}
			if r.IntN(3) == 0 {
				c.away *= 20
			}
			clients = append(clients, c)
		}
		w := simulate(seed, engines, clients, false, long)
		for i, s := range w.stages {
			if s.worst > lastingPatience*1.1 { // what is measured varies
				t.Errorf("seed %d: stage %d of %d waited %.2f of an iteration", seed, i, len(engines), s.worst)
			}
		}
		// The longest round: everybody's rows and the longest pieces of prompts, in all stages.
		round := 0.0
		for _, e := range engines {
			round += (2 + stretch) * e.took(len(clients)) * 2
		}
		for i, u := range w.users {
			last := u.from
			for k, at := range u.at {
				// A prompt may take long, and so may the first iterations, of which nothing is known.
				if gap := (at - last).Seconds() * 1000; u.gaps[k] > 0 && at > time.Second && gap > 3*round+u.away*2 {
					t.Errorf("seed %d: client %d waited %.0f ms for a token, a round takes %.0f", seed, i, gap, round)
				}
				last = at
			}
			if len(u.at) == 0 {
				t.Errorf("seed %d: client %d got nothing", seed, i)
			}
		}
	}
}

// scripted is a queue with a clock, and one stage that takes 20 ms for each iteration and
// one more for each row.
type scripted struct {
	q    *Queue
	now  time.Duration
	item uint64
}

func newScripted(sessions int) *scripted {
	s := &scripted{q: New(), now: time.Hour}
	for i := range sessions {
		s.q.Open(Session(i+1), fmt.Sprint(i), Key{})
	}
	return s
}

func (s *scripted) push(id Session, rows int) {
	s.item++
	s.q.Push(s.now, id, s.item, rows, classOf(rows))
}

// compute runs the iteration that Next gives now, and returns its sessions; or the wait.
func (s *scripted) compute() (got []Session, wait time.Duration) {
	grants, wait := s.q.Next(s.now, 512)
	rows := 0
	for _, g := range grants {
		got = append(got, g.Session)
		rows += g.Rows
	}
	if rows > 0 {
		took := ms(20 + float64(rows))
		s.now += took
		s.q.Computed(s.now, took)
	}
	return got, wait
}

// together lets two sessions that return after 2 ms come to share iterations.
func together(t *testing.T) *scripted {
	t.Helper()
	s := newScripted(2)
	for range 10 { // in turns, so that both times are known
		for id := Session(1); id <= 2; id++ {
			s.push(id, 1)
			if got, _ := s.compute(); len(got) != 1 {
				t.Fatalf("computed %v", got)
			}
			s.now += ms(2)
		}
	}
	return s
}

func TestALoneSessionNeverWaits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := newScripted(3) // the others have nothing to do
	for i := range 2000 {
		s.push(1, 1+r.IntN(2)*r.IntN(40))
		if _, wait := s.compute(); wait != 0 {
			t.Fatalf("step %d waits %v", i, wait)
		}
		s.now += ms(10 * r.Float64())
	}
}

func TestWhoComesSoonIsWaitedFor(t *testing.T) {
	s := newScripted(2)
	s.push(1, 1)
	s.compute()
	s.now += ms(2)
	shared := 0
	for range 20 {
		// The one that waits, and the one whose result just left: opposite phases.
		s.push(1, 1)
		got, wait := s.compute()
		if wait > 0 {
			s.now += ms(1)
			s.push(2, 1)
			if got, wait = s.compute(); wait > 0 {
				t.Fatalf("waits %v though all are here", wait)
			}
		} else {
			s.push(2, 1)
			s.compute()
		}
		if len(got) == 2 {
			shared++
		}
		s.now += ms(1)
	}
	if shared < 10 {
		t.Errorf("%d of 20 iterations were shared", shared)
	}
}

func TestWhoStoppedIsWaitedForOnce(t *testing.T) {
	s := together(t)
	waited := time.Duration(0)
	for range 20 { // the second session never comes again
		s.push(1, 1)
		for {
			got, wait := s.compute()
			if wait == 0 {
				if len(got) != 1 {
					t.Fatalf("computed %v", got)
				}
				break
			}
			s.now += wait
			waited += wait
		}
		s.now += ms(2)
	}
	if waited > ms(10) {
		t.Errorf("waited %v for who has stopped", waited)
	}
}

func TestWhoIsFarAwayIsNotWaitedFor(t *testing.T) {
	s := newScripted(2)
	next := s.now // of the far one, 15 ms after its result
	for range 60 {
		s.push(1, 1)
		if s.now >= next {
			s.push(2, 1)
			next = time.Duration(1 << 62)
		}
		got, wait := s.compute()
		if wait != 0 {
			t.Fatalf("the near one waits %v", wait)
		}
		if len(got) == 2 {
			next = s.now + ms(15)
		}
		s.now += ms(1)
	}
}

// Nobody is waited for where rows of other blocks are ready.
func TestOtherKeysAreNotHeldUp(t *testing.T) {
	s := together(t)
	s.q.Open(3, "c", Key{Start: 1})
	s.push(2, 1)
	if _, wait := s.compute(); wait == 0 {
		t.Fatal("the session that comes soon is not waited for")
	}
	s.push(3, 1)
	if got, wait := s.compute(); wait != 0 || len(got) != 1 || got[0] != 2 {
		t.Fatalf("computed %v, waits %v", got, wait)
	}
}

// A replay of single rows, which lie in the queue already, is not held up for others.
func TestAReplayIsNotHeldUp(t *testing.T) {
	s := together(t)
	for range 50 {
		s.push(2, 1)
	}
	s.push(1, 1)
	s.compute()
	for i := range 48 {
		if got, wait := s.compute(); wait != 0 || len(got) != 1 {
			t.Fatalf("row %d: computed %v, waits %v", i, got, wait)
		}
		if i == 0 {
			s.now += ms(1)
		}
	}
}

// Clients on the stage's own machine are away for longer, and its iterations take longer, while
// they take turns. That must not keep them from being one group: nobody knows what they would get
// together before they have been.
func TestClientsHereAreOneGroup(t *testing.T) {
	const long = 20 * time.Second
	for seed := range uint64(6) {
		for _, here := range []float64{1, 2, 3} {
			clients := endless(clientsOf(8, 0.9, "here"))
			for i := range clients {
				clients[i].here = here
				clients[i].from = ms(float64(i) * 1.3)
			}
			w := simulate(seed, []engine{{1.6, 0.24, 0.25}}, clients, false, long)
			if s := w.stages[0]; float64(s.parts)/float64(s.steps) < 7.5 {
				t.Errorf("seed %d, %v times as long: a mean batch of %.1f, want nearly 8", seed, here, float64(s.parts)/float64(s.steps))
			}
		}
	}
}
