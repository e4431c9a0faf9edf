package dir

import (
	"cmp"
	"slices"
	"time"

	"whorl/internal/backoff"
	"whorl/swarm"
)

// again is when a peer that did not answer is tried again. It starts below the time that a
// restart takes, and ends where a swarm of thousands of dead records costs a node a dial a
// second.
var again = backoff.Policy{First: 3 * time.Second, Max: 5 * time.Minute, Jitter: 0.5}

// restFor is how many refreshes a peer that was reached and that this node has no stream to is left
// alone: pings are most of what an idle node costs, and the end of a connection is seen at once.
const restFor = 5

// fail hides a peer that did not answer, and says when it may be tried again. draw is
// uniform in [0, 1). It tells whether hiding it is news.
func (s *records) fail(p swarm.PeerID, draw float64, now time.Time) bool {
	e := s.peers[p]
	if e == nil {
		return false
	}
	e.failures++
	e.retry = now.Add(again.After(e.failures, draw))
	return s.suspect(p)
}

// needed tells whether this node may try to reach a peer on its own account: it has been
// reached before, it serves a model that is used here, or a teller that the operator named
// told of it. Others are never dialled for the sake of whoever spreads their records.
func (e *entry) needed(wanted map[swarm.UID]time.Time) bool {
	_, used := wanted[e.record.UID]
	return !e.reached.IsZero() || used || e.named
}

// due lists up to n servers to measure now, and notes that they are; those that were reached and are
// not in use have some rest in between. At most half are those in use, then come peers never reached and peers reached in turn, a half of the rest each,
// and what one leaves the others take. Among the peers never reached every group has its turn, however
// many rows another has.
func (s *records) due(n int, wanted map[swarm.UID]time.Time, rest time.Duration, now time.Time) []swarm.PeerID {
	var used, fresh, known []swarm.PeerID
	for p, e := range s.peers {
		switch {
		case p == s.self || e.record.State < swarm.Draining || now.Before(e.retry) || !e.needed(wanted):
		case !e.used.IsZero():
			used = append(used, p)
		case e.reached.IsZero():
			fresh = append(fresh, p)
		case now.Sub(e.pinged) < rest:
		default:
			known = append(known, p)
		}
	}
	slices.SortFunc(used, s.longest)
	slices.SortFunc(known, s.longest)
	fresh = s.inTurn(fresh)

	half := min(len(used), max(n/2, n-len(fresh)-len(known)))
	out := slices.Clone(used[:half])
	left := n - half
	out = append(out, fresh[:min(len(fresh), max(left/2, left-len(known)))]...)
	out = append(out, known[:min(len(known), n-len(out))]...)
	for _, p := range out {
		s.peers[p].pinged = now
	}
	return out
}

// strangers lists up to n servers of the models of a name that were never reached, and notes
// that they are tried now.
func (s *records) strangers(name string, n int, now time.Time) []swarm.PeerID {
	var out []swarm.PeerID
	for p, e := range s.peers {
		h := s.manifests.held[e.record.UID]
		if p != s.self && e.reached.IsZero() && h != nil && h.m.Name == name && e.record.State >= swarm.Joining && !now.Before(e.retry) {
			out = append(out, p)
		}
	}
	out = s.inTurn(out)
	out = out[:min(n, len(out))]
	for _, p := range out {
		s.peers[p].pinged = now
	}
	return out
}

// longest orders peers by when they were last tried.
func (s *records) longest(a, b swarm.PeerID) int {
	return cmp.Or(s.peers[a].pinged.Compare(s.peers[b].pinged), cmp.Compare(a, b))
}

// inTurn orders peers so that groups alternate, the group whose last try is longest ago
// first.
func (s *records) inTurn(peers []swarm.PeerID) []swarm.PeerID {
	slices.SortFunc(peers, s.longest)
	place := map[string]int{} // of the next peer in its group
	at := make(map[swarm.PeerID]int, len(peers))
	for _, p := range peers {
		key := s.peers[p].key
		at[p] = place[key]
		place[key]++
	}
	slices.SortStableFunc(peers, func(a, b swarm.PeerID) int { return cmp.Compare(at[a], at[b]) })
	return peers
}
