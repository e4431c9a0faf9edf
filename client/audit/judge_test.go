package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"whorl/content"
	"whorl/swarm"
)

// row is what somebody makes of a row: the same letter is the same bits.
func row(b byte) content.Hash {
	if b == '-' {
		return content.Hash{}
	}
	return content.Hash{b}
}

func rows(text string) []content.Hash {
	var out []content.Hash
	for i := range len(text) {
		out = append(out, row(text[i]))
	}
	return out
}

// world answers by a list of "name rows" in the order in which they are asked; "name" alone
// refuses, "x+y rows" is a chain, and what is asked of the accused itself is under "S".
type world struct {
	holders []string
	again   []string
	asked   []string
	at      string // networks of peers, such as "W=n V=n"; others say nothing
}

func (w *world) Network(p swarm.PeerID) string {
	for _, s := range strings.Fields(w.at) {
		if name, at, _ := strings.Cut(s, "="); name == string(p) {
			return at
		}
	}
	return ""
}

func (w *world) Others(without []swarm.PeerID) []swarm.Hop {
	for _, h := range w.holders {
		name, _, _ := strings.Cut(h, " ")
		var hops []swarm.Hop
		for _, n := range strings.Split(name, "+") {
			hops = append(hops, swarm.Hop{Peer: swarm.PeerID(n)})
		}
		if !slices.Contains(without, hops[0].Peer) {
			return hops
		}
	}
	return nil
}

func (w *world) Replay(hops []swarm.Hop, n int) ([]content.Hash, error) {
	var names []string
	for _, h := range hops {
		names = append(names, string(h.Peer))
	}
	name, text := strings.Join(names, "+"), ""
	w.asked = append(w.asked, name)
	if name == "S" {
		if len(w.again) > 0 {
			text, w.again = w.again[0], w.again[1:]
		}
	} else {
		for _, h := range w.holders {
			if who, rows, _ := strings.Cut(h, " "); who == name {
				text = rows
			}
		}
	}
	if text == "" {
		return nil, errors.New("no room")
	}
	return rows(text)[:n], nil
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name    string
		claim   string
		sender  swarm.PeerID
		own     swarm.PeerID
		holders []string
		again   []string
		want    string
	}{
		{"equal rows", "abc", "", "", []string{"W abc"}, nil, "agreed"},
		{"rows that the client lacks", "--c", "", "", []string{"W xyc"}, nil, "agreed"},
		{"nobody else", "abc", "", "", nil, nil, "impossible"},
		{"all are full", "abc", "", "", []string{"W", "V", "U"}, nil, "impossible"},
		{"the second has room", "abc", "", "", []string{"W", "V abc"}, nil, "agreed"},
		{"a third agrees with the witness", "abx", "", "", []string{"W abc", "V abc"}, nil, "judged at 2: [S] by [W V]"},
		{"a third agrees with the accused", "abc", "", "", []string{"W axc", "V abc"}, nil, "judged at 1: [W] by [S V]"},
		{"three ways, and a fourth", "axc", "", "", []string{"W ayc", "V abc", "U abc"}, nil, "judged at 1: [S W] by [V U]"},
		{"nobody judges", "axc", "", "", []string{"W abc"}, nil, "suspected at 1: [S W]"},
		{"those who could are full", "axc", "", "", []string{"W abc", "V", "U"}, nil, "suspected at 1: [S W]"},
		{"one of them has room", "axc", "", "", []string{"W abc", "V", "U abc"}, nil, "judged at 1: [S] by [W U]"},
		{"this node needs no third", "axc", "", "W", []string{"W abc"}, nil, "judged at 1: [S] by [W]"},
		{"two liars that agree about one row by chance", "abc", "", "", []string{"W xbc", "V xby", "U abc"}, nil, "judged at 0: [W V] by [S U]"},
		{"in the middle, behind this node's own blocks", "axc", "M", "M", []string{"W abc", "V abc"}, nil, "judged at 1: [S] by [W V]"},
		{"this node is the third", "axc", "", "V", []string{"W ayc", "V abc"}, nil, "judged at 1: [S W] by [V]"},
		{"a chain is right", "axc", "", "", []string{"W+X abc", "V abc"}, nil, "judged at 1: [S] by [W X V]"},
		{"a chain is wrong: nobody knows who of it", "abc", "", "", []string{"W+X axc", "V abc"}, nil, "judged at 1: [] by [S V]"},
		{"in the middle, and it lies again", "axc", "P", "", []string{"W abc", "V abc"}, []string{"abz"}, "judged at 2: [S] by [W V]"},
		{"in the middle, and it lies at the third try", "axc", "P", "", []string{"W abc", "V abc"}, []string{"abc", "abc", "zbc"}, "judged at 0: [S] by [W V]"},
		{"in the middle, and it is right when asked", "axc", "P", "", []string{"W abc", "V abc"}, append(slices.Repeat([]string{"abc"}, mostAgain), "xxx"), "disputed at 1: [P S]"},
		{"in the middle, and it does not answer", "axc", "P", "", []string{"W abc", "V abc"}, nil, "disputed at 1: [P S]"},
		{"in the middle, and the witness lies", "abc", "P", "", []string{"W axc", "V abc"}, []string{"abc"}, "judged at 1: [W] by [S V]"},
	} {
		w := &world{holders: c.holders, again: c.again}
		v := Judge(Claim{Peer: "S", Sender: c.sender, Out: rows(c.claim)}, c.own, w)
		if got := told(v); got != c.want {
			t.Errorf("%s: %s, want %s (asked %v)", c.name, got, c.want, w.asked)
		}
	}
}

// Those of one network have one voice, however many they are and whomever they agree against.
func TestJudgeNetworks(t *testing.T) {
	for _, c := range []struct {
		name    string
		claim   string
		holders []string
		at      string
		want    string
	}{
		{"two liars of one network, and nobody else", "abc", []string{"W axc", "V axc"}, "W=n V=n", "suspected at 1: [S W V]"},
		{"an honest one of another network comes third", "abc", []string{"W axc", "V axc", "U abc"}, "W=n V=n", "judged at 1: [W V] by [S U]"},
		{"the accused is of the witness's network", "axc", []string{"W axc", "V abc", "U abc"}, "S=n W=n", "agreed"},
		{"the liar and its neighbour", "axc", []string{"W abc", "V axc", "U abc"}, "S=n V=n", "judged at 1: [S V] by [W U]"},
		{"a chain of both networks", "axc", []string{"W abc", "V+X abc", "U abc"}, "W=n X=n", "judged at 1: [S] by [W V X U]"},
		{"networks that say nothing", "axc", []string{"W abc", "V abc"}, "", "judged at 1: [S] by [W V]"},
	} {
		w := &world{holders: c.holders, at: c.at}
		if got := told(Judge(Claim{Peer: "S", Out: rows(c.claim)}, "", w)); got != c.want {
			t.Errorf("%s: %s, want %s (asked %v)", c.name, got, c.want, w.asked)
		}
	}
}

// told is a verdict in short.
func told(v Verdict) string {
	switch v.Result {
	case Judged:
		return fmt.Sprintf("judged at %d: %v by %v", v.Row, v.Liars, v.By)
	case Suspected, Disputed:
		return fmt.Sprintf("%v at %d: %v", v.Result, v.Row, v.Who)
	}
	return v.Result.String()
}

// A dispute is about one direction; the oldest are forgotten.
func TestDisputes(t *testing.T) {
	var d Disputes
	before := d.Links()
	d.Add(Link{"P", "a"})
	d.Add(Link{"P", "a"})
	if l := d.Links(); len(before) != 0 || len(l) != 1 || !l[Link{"P", "a"}] || l[Link{"a", "P"}] {
		t.Errorf("%v, before %v", l, before)
	}
	for i := range maxDisputes {
		d.Add(Link{"x", swarm.PeerID(fmt.Sprint(i))})
	}
	if l := d.Links(); len(l) != maxDisputes || len(d.order) != maxDisputes || l[Link{"P", "a"}] || !l[Link{"x", "0"}] {
		t.Errorf("%d of %d are kept", len(l), len(d.order))
	}
}
