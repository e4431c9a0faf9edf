package audit

import (
	"slices"

	"whorl/content"
	"whorl/swarm"
)

// Claim is what a server gave for rows of a session.
type Claim struct {
	Peer swarm.PeerID
	Span swarm.Span
	// Sender is the server that sent it the rows; "" for the client, which knows then what it
	// sent, as it does of this node's own blocks.
	Sender swarm.PeerID
	// Out names the rows that it gave, by row; zero for those that somebody else gave or that
	// the client did not see. Rows behind the last are not asked for.
	Out []content.Hash
}

// Asker has servers compute the rows of a claim.
type Asker interface {
	// Others is a chain for the claim's blocks without some peers; none if there is none.
	Others(without []swarm.PeerID) []swarm.Hop
	// Replay has a chain compute the first rows anew, each server fed by the client, and names
	// the results.
	Replay(hops []swarm.Hop, rows int) ([]content.Hash, error)
	// Network is where a peer's address lies, "" where that is unknown or says nothing.
	Network(p swarm.PeerID) string
}

// Result is how an audit ended.
type Result uint8

// The results.
const (
	Impossible Result = iota // nobody else computed the rows
	Agreed                   // all rows are those of another holder
	Judged                   // they differ, and others of two networks or this node itself said who is wrong
	Suspected                // they differ, and there was nobody to judge
	Disputed                 // they differ, and the server or its sender may be to blame
	numResults
)

// NumResults is how many results there are.
const NumResults = int(numResults)

var resultNames = [numResults]string{"impossible", "agreed", "judged", "suspected", "disputed"}

// String is the name.
func (r Result) String() string { return resultNames[r] }

// Verdict is what an audit found.
type Verdict struct {
	Result Result
	Row    int            // the first that differs
	Liars  []swarm.PeerID // of Judged: proven
	Right  []content.Hash // of Judged: the rows that those who agreed gave, as far as they are known
	By     []swarm.PeerID // of Judged: who agreed against them; of Agreed: whose rows the same are
	Who    []swarm.PeerID // of Suspected and Disputed: one of them lies
	// Sides are Who of Suspected, those together that computed the same rows one after the other.
	Sides [][]swarm.PeerID
}

const (
	// maxWitnesses is how many chains are asked for a first witness: cache may be full.
	maxWitnesses = 3
	// maxJudges is how many chains are asked after that: liars that do not collude give
	// different rows, and cannot outvote two that are honest.
	maxJudges = 4
	// A server in the middle of a chain is asked itself this often, and for so many rows in all if
	// that is more: one that lies now and then, and be it about a thousandth of its rows, is caught
	// with several tries.
	leastAgain, mostAgain, againRows = 8, 64, 4096
)

// vote is what one chain made of the rows, zero where that is not known.
type vote struct {
	hops []swarm.Hop
	out  []content.Hash
}

func (v *vote) peers() []swarm.PeerID {
	var out []swarm.PeerID
	for _, h := range v.hops {
		out = append(out, h.Peer)
	}
	return out
}

// Judge audits a claim. What own says, the peer of this node itself, needs no second voice; ""
// for a node without blocks.
func Judge(c Claim, own swarm.PeerID, a Asker) Verdict {
	j := judge{claim: c, own: own, ask: a, asked: []swarm.PeerID{c.Peer}}
	witness, out := j.next(len(c.Out), maxWitnesses)
	if out == nil {
		return Verdict{Result: Impossible}
	}
	row := differs(c.Out, out)
	if row < 0 {
		v := vote{hops: witness}
		return Verdict{Result: Agreed, By: v.peers()}
	}
	accused := vote{[]swarm.Hop{{Peer: c.Peer, Span: c.Span}}, c.Out}
	if c.Sender != "" && c.Sender != own { // this node shows what it pushes
		if accused.out = j.again(accused.hops, out); accused.out == nil {
			return Verdict{Result: Disputed, Row: row, Who: []swarm.PeerID{c.Sender, c.Peer}}
		}
		row = differs(accused.out, out)
	}
	return j.settle(row, []vote{accused, {witness, out}})
}

// Right is what a span makes of the first rows: what this node gives itself, or two chains that share no
// server and no network, none of them among some peers. nil if nobody can tell.
func Right(span swarm.Span, rows int, without []swarm.PeerID, own swarm.PeerID, a Asker) (out []content.Hash, by []swarm.PeerID) {
	j := judge{claim: Claim{Span: span}, own: own, ask: a, asked: slices.Clone(without)}
	var votes []vote
	for range maxWitnesses + maxJudges {
		hops, out := j.next(rows, 1)
		if out == nil {
			if len(hops) == 0 && len(a.Others(j.asked)) == 0 {
				break
			}
			continue
		}
		votes = append(votes, vote{hops, out})
		if right := j.agreed(votes); len(right) > 0 {
			for _, v := range right {
				by = append(by, v.peers()...)
			}
			return right[0].out, by
		}
	}
	return nil, nil
}

// again asks a server itself for the rows, until it gives others than a witness; nil if it does
// not.
func (j *judge) again(hops []swarm.Hop, witness []content.Hash) []content.Hash {
	for range min(max(leastAgain, againRows/len(witness)), mostAgain) {
		out, err := j.ask.Replay(hops, len(witness))
		if err != nil || len(out) != len(witness) {
			break
		}
		if differs(out, witness) >= 0 {
			return out
		}
	}
	return nil
}

// judge is an audit under way.
type judge struct {
	claim Claim
	own   swarm.PeerID
	ask   Asker
	asked []swarm.PeerID
}

// next asks further chains for rows until one answers; nil if none of so many does.
func (j *judge) next(rows, tries int) ([]swarm.Hop, []content.Hash) {
	for range tries {
		hops := j.ask.Others(j.asked)
		if len(hops) == 0 {
			break
		}
		for _, h := range hops {
			j.asked = append(j.asked, h.Peer)
		}
		if out, err := j.ask.Replay(hops, rows); err == nil && len(out) == rows {
			return hops, out
		}
	}
	return nil, nil
}

// settle asks further chains until two agree that share no server and no network: identities
// cost nothing, and those at one address may all be of one liar. They must agree about all rows:
// two liars may have altered the same bit of one. Who gave others is a liar. A chain of several is
// not: which of them lied the audits of each say. The row is where the first two differ.
func (j *judge) settle(row int, votes []vote) Verdict {
	for tries := 0; ; tries++ {
		if right := j.agreed(votes); len(right) > 0 {
			v := Verdict{Result: Judged, Row: row, Right: right[len(right)-1].out}
			for i := range votes {
				switch {
				case votes[i].agrees(&right[0]):
					v.By = append(v.By, votes[i].peers()...)
				case len(votes[i].hops) == 1:
					v.Liars = append(v.Liars, votes[i].hops[0].Peer)
				}
			}
			return v
		}
		if tries == maxJudges {
			break
		}
		hops, out := j.next(len(votes[1].out), 1)
		if len(hops) == 0 {
			if len(j.ask.Others(j.asked)) == 0 {
				break
			}
			continue
		}
		votes = append(votes, vote{hops, out})
	}
	v := Verdict{Result: Suspected, Row: row}
	for i := range votes {
		v.Who = append(v.Who, votes[i].peers()...)
		v.Sides = append(v.Sides, votes[i].peers())
	}
	return v
}

// agreed are two votes for the same rows from different networks, or this node's own one; none if
// there are none.
func (j *judge) agreed(votes []vote) []vote {
	for i, v := range votes {
		if j.own != "" && len(v.hops) == 1 && v.hops[0].Peer == j.own {
			return []vote{v}
		}
		if k := slices.IndexFunc(votes[i+1:], func(w vote) bool { return w.agrees(&v) && j.apart(&v, &w) }); k >= 0 {
			return []vote{v, votes[i+1+k]}
		}
	}
	return nil
}

// agrees tells whether two votes are the same in all rows that both have.
func (v *vote) agrees(w *vote) bool {
	for i := range min(len(v.out), len(w.out)) {
		if a, b := v.out[i], w.out[i]; a != b && !a.IsZero() && !b.IsZero() {
			return false
		}
	}
	return true
}

// apart tells whether two votes have no network in common.
func (j *judge) apart(v, w *vote) bool {
	for _, p := range v.peers() {
		at := j.ask.Network(p)
		if at != "" && slices.ContainsFunc(w.peers(), func(q swarm.PeerID) bool { return j.ask.Network(q) == at }) {
			return false
		}
	}
	return true
}

// differs is the first row of a claim that is another one in out; -1 if none is.
func differs(claim, out []content.Hash) int {
	for i, h := range claim {
		if !h.IsZero() && h != out[i] {
			return i
		}
	}
	return -1
}
