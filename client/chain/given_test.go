package chain

import (
	"fmt"
	"testing"

	"whorl/swarm"
)

// Who gave which rows is known after stages are lost, replaced and found to lie: nobody
// answers for rows of others, nor for what it made of rows that do not count any more.
func TestGiven(t *testing.T) {
	var list []Given
	m := New(Params{Blocks: 4, PageRows: 64, Pages: 100})
	a, b := &stage{id: 1, hop: Hop{Hop: swarm.Hop{Peer: "a"}}}, &stage{id: 2, index: 1, hop: Hop{Hop: swarm.Hop{Peer: "b"}}}
	m.row = []*stage{a, b}
	text := func() string {
		out := ""
		for _, g := range list {
			out += fmt.Sprintf("%s<%s %d:%d ", g.Peer, g.Sender, g.From, g.To)
		}
		return out
	}
	for i, c := range []struct {
		do   func()
		want string
	}{
		{func() { list = m.give(list, b, 0, 10) }, "b<a 0:10 "},
		{func() { list = m.give(list, b, 10, 11) }, "b<a 0:11 "},
		{func() { a.hop.Peer = "c"; list = m.give(list, b, 11, 12) }, "b<a 0:11 b<c 11:12 "},
		{func() { list = m.give(list, a, 20, 30) }, "b<a 0:11 b<c 11:12 c< 20:30 "},
		{func() { list = cutGiven(list, 25) }, "b<a 0:11 b<c 11:12 c< 20:25 "},
		{func() { list = cutGiven(list, 5) }, "b<a 0:5 "},
		{func() { list = cutGiven(list, 0) }, ""},
	} {
		if c.do(); text() != c.want {
			t.Errorf("%d: %s, want %s", i, text(), c.want)
		}
	}

	r := wholeRig(t)
	r.pass(1, 10, 11)
	r.pass(2, 10, 11)
	r.pass(3, 10, 11)
	outputs := func() string { return fmt.Sprint(r.m.Given(r.m.p.Blocks)) }
	before := outputs()
	if before == "[]" {
		t.Fatal("nobody gave the outputs")
	}
	r.step(Event{Kind: Lost, Stage: 2, What: swarm.Lied, Err: lostErr})
	if got := outputs(); got != "[]" {
		t.Errorf("outputs made of a liar's rows: %s, before %s", got, before)
	}
}
