package dir

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"whorl/swarm"
)

// maxPeers bounds the store: above the largest swarm one exchange can carry.
const maxPeers = 8192

// records is what a node knows: the newest record of each peer. Pure: the clock is passed
// in. Not for concurrent use.
type records struct {
	peers map[swarm.PeerID]*entry
}

type entry struct {
	record  *swarm.Record
	signed  []byte
	until   time.Time // by our clock
	suspect bool
}

func newRecords() *records { return &records{peers: map[swarm.PeerID]*entry{}} }

// put takes a verified record in; it tells whether anything changed. A peer's record is
// only replaced by one with a higher sequence.
func (s *records) put(r *swarm.Record, signed []byte, now time.Time) (bool, error) {
	old := s.peers[r.Peer]
	if old != nil && !r.Newer(old.record) {
		return false, nil
	}
	if old == nil && len(s.peers) >= maxPeers {
		return false, fmt.Errorf("the directory is full with %d peers", maxPeers)
	}
	life := time.Duration(r.Expires-r.Issued) * time.Millisecond
	until := now.Add(min(life, swarm.MaxLifetime))
	if own := time.UnixMilli(r.Expires); own.Before(until) {
		until = own
	}
	s.peers[r.Peer] = &entry{record: r, signed: slices.Clone(signed), until: until}
	return true, nil
}

// suspect hides a peer until it says something newer; it tells whether that is news.
func (s *records) suspect(p swarm.PeerID) bool {
	e := s.peers[p]
	if e == nil || e.suspect {
		return false
	}
	e.suspect = true
	return true
}

// clear takes a suspicion back: the peer answered.
func (s *records) clear(p swarm.PeerID) bool {
	e := s.peers[p]
	if e == nil || !e.suspect {
		return false
	}
	e.suspect = false
	return true
}

// prune drops what has expired; it tells whether there was anything.
func (s *records) prune(now time.Time) bool {
	before := len(s.peers)
	for p, e := range s.peers {
		if !now.Before(e.until) {
			delete(s.peers, p)
		}
	}
	return len(s.peers) != before
}

// signed lists up to max envelopes of what is alive, for a pull; the newest first.
func (s *records) signed(now time.Time, limit int) [][]byte {
	var live []*entry
	for _, e := range s.peers {
		if now.Before(e.until) && !e.suspect {
			live = append(live, e)
		}
	}
	slices.SortFunc(live, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.record.Seq, a.record.Seq), cmp.Compare(a.record.Peer, b.record.Peer))
	})
	out := make([][]byte, 0, min(len(live), limit))
	for _, e := range live[:min(len(live), limit)] {
		out = append(out, e.signed)
	}
	return out
}

// views groups the live records by model, sorted by name and UID.
func (s *records) views(now time.Time) []swarm.View {
	byUID := map[swarm.UID][]swarm.Record{}
	for _, e := range s.peers {
		if now.Before(e.until) && !e.suspect {
			byUID[e.record.UID()] = append(byUID[e.record.UID()], *e.record)
		}
	}
	var out []swarm.View
	for _, rs := range byUID {
		out = append(out, swarm.NewView(rs[0].Manifest, now, rs))
	}
	slices.SortFunc(out, func(a, b swarm.View) int {
		return cmp.Or(cmp.Compare(a.Manifest.Name, b.Manifest.Name), cmp.Compare(a.Manifest.UID(), b.Manifest.UID()))
	})
	return out
}
