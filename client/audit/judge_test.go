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
		{"this node is the third", "axc", "", "V", []string{"W ayc", "V abc"}, nil, "judged at 1: [S W] by [V]"},
		{"a chain is right", "axc", "", "", []string{"W+X abc", "V abc"}, nil, "judged at 1: [S] by [W X V]"},
		{"a chain is wrong: nobody knows who of it", "abc", "", "", []string{"W+X axc", "V abc"}, nil, "judged at 1: [] by [S V]"},
		{"in the middle, and it lies again", "axc", "P", "", []string{"W abc", "V abc"}, []string{"abz"}, "judged at 2: [S] by [W V]"},
		{"in the middle, and it lies at the third try", "axc", "P", "", []string{"W abc", "V abc"}, []string{"abc", "abc", "zbc"}, "judged at 0: [S] by [W V]"},
		{"in the middle, and it is right when asked", "axc", "P", "", []string{"W abc", "V abc"}, []string{"abc", "abc", "abc", "abc", "abc", "abc", "abc", "abc", "xxx"}, "disputed at 1: [P S]"},
		{"in the middle, and it does not answer", "axc", "P", "", []string{"W abc", "V abc"}, nil, "disputed at 1: [P S]"},
		{"in the middle, and the witness lies", "abc", "P", "", []string{"W axc", "V abc"}, []string{"abc"}, "judged at 1: [W] by [S V]"},
	} {
		w := &world{holders: c.holders, again: c.again}
		v := Judge(Claim{Peer: "S", Sender: c.sender, Out: rows(c.claim)}, c.own, w)
		got := v.Result.String()
		switch v.Result {
		case Judged:
			got += fmt.Sprintf(" at %d: %v by %v", v.Row, v.Liars, v.By)
		case Suspected, Disputed:
			got += fmt.Sprintf(" at %d: %v", v.Row, v.Who)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s (asked %v)", c.name, got, c.want, w.asked)
		}
	}
}

// Who quarrels with many is likely to blame, and not whom it quarrels with.
func TestDisputes(t *testing.T) {
	var d Disputes
	for _, c := range []struct {
		a, b swarm.PeerID
		want string
	}{
		{"P", "a", "[]"}, {"P", "a", "[]"}, {"b", "P", "[P]"}, {"P", "c", "[P]"}, {"c", "d", "[]"}, {"P", "c", "[P]"},
	} {
		if got := fmt.Sprint(d.Add(c.a, c.b)); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.a, c.b, got, c.want)
		}
	}
	for i := range 3 * maxDisputes {
		d.Add("x", swarm.PeerID(fmt.Sprint(i)))
	}
	if len(d.pairs) > maxDisputes {
		t.Errorf("%d pairs are kept", len(d.pairs))
	}
}
