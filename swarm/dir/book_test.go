package dir

import (
	"fmt"
	"testing"
	"time"

	"whorl/swarm"
)

// Books pass on what is new as directories do: a newcomer knows all after one exchange with the node that it
// begins with, the others within some refreshes, and each reaches those that it is told of.
func TestBooks(t *testing.T) {
	const n = 30
	now := epoch
	first := NewBook("first", model)
	books := map[swarm.PeerID]*Book{"first": first}
	all := []swarm.PeerID{}
	say := func(p swarm.PeerID, seq uint64, state swarm.State) {
		books[p].Announce(swarm.Record{State: state, Span: swarm.Span{End: 2}, Seq: seq}, now)
	}
	for i := range n {
		p := swarm.PeerID(fmt.Sprintf("peer%02d", i))
		books[p] = NewBook(p, model)
		all = append(all, p)
		say(p, 1, swarm.Online)
		books[p].Exchange(first, true, now)
	}
	if got := len(first.View(now).Servers); got != n {
		t.Fatalf("the first node knows %d of %d", got, n)
	}
	late := NewBook("late", model)
	late.Exchange(first, true, now)
	if v := late.View(now); len(v.Servers) != n || !v.Hearsay("peer03") {
		t.Errorf("a newcomer knows %d of %d, and takes them for reached: %v", len(v.Servers), n, v.Reached)
	}
	round := func() {
		now = now.Add(DefaultConfig().Refresh)
		for _, p := range all {
			for _, teller := range books[p].Tellers(tellers, []swarm.PeerID{"first"}, append(all, "first"), now) {
				books[p].Exchange(books[teller], teller == "first", now)
			}
			for _, o := range books[p].Unmet(now) {
				books[p].Ping(o, true, 0, now)
			}
		}
	}
	for range 4 {
		round()
	}
	for _, p := range all {
		v := books[p].View(now)
		if len(v.Servers) != n || books[p].Strangers() {
			t.Fatalf("%s knows %d of %d, and has reached %d", p, len(v.Servers), n, len(v.Reached))
		}
		books[p].Changed()
	}
	say("peer07", 2, swarm.Draining)
	rounds := 0
	for knows := 0; knows < n && rounds < 10; rounds++ {
		round()
		knows = 0
		for _, p := range all {
			if r, _ := books[p].Row("peer07", now); r != nil && r.State == swarm.Draining {
				knows++
			}
		}
	}
	if rounds > 4 {
		t.Errorf("%d refreshes until all know of a new state", rounds)
	}
	if got := books["peer11"].Changed(); len(got) != 1 || got[0] != "peer07" {
		t.Errorf("changed: %v", got)
	}
	// Who does not answer is in no view until it says something new, and who is struck out in none for good.
	b := books["peer11"]
	b.Ping("peer07", false, 0, now)
	if r, _ := b.Row("peer07", now); r != nil {
		t.Error("a server that did not answer is in the view")
	}
	say("peer07", 3, swarm.Online)
	b.Exchange(books["peer07"], false, now)
	if r, met := b.Row("peer07", now); r == nil || !met {
		t.Error("a server that came back is in no view")
	}
	if b.Strike("peer07", 2); len(b.View(now).Servers) != n {
		t.Error("an older record is struck out with a newer one")
	}
	if b.Strike("peer07", 3); len(b.View(now).Servers) != n-1 {
		t.Error("a record lives for ever")
	}
	if a, b := PingRound(10), PingRound(400); a != 15*time.Second || b != 75*time.Second {
		t.Errorf("10 and 400 peers are pinged in %v and %v", a, b)
	}
}
