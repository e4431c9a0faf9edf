package dir

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// maxPeers bounds the store: the largest swarm that one exchange can carry.
const maxPeers = wire.MaxRecords

// records is what a node knows: the newest record of each peer. Pure: the clock is passed
// in. Not for concurrent use.
type records struct {
	peers map[swarm.PeerID]*entry
}

type entry struct {
	record  *swarm.Record
	uid     swarm.UID
	signed  []byte
	until   time.Time // by our clock
	suspect bool
}

// seen tells whether the record may stand in views and be told to others.
func (e *entry) seen(now time.Time) bool { return now.Before(e.until) && !e.suspect }

func newRecords() *records { return &records{peers: map[swarm.PeerID]*entry{}} }

// put takes a verified record in; it tells whether anything changed. A peer's record is
// only replaced by one with a higher sequence. It lives as long as it says from its
// receipt on, but not beyond its own expiry by more than clocks may differ: handing an old
// record on does not keep a dead server alive.
func (s *records) put(r *swarm.Record, signed []byte, now time.Time) (bool, error) {
	old := s.peers[r.Peer]
	if old != nil && !r.Newer(old.record) {
		return false, nil
	}
	if old == nil && len(s.peers) >= maxPeers && !s.prune(now) {
		return false, fmt.Errorf("%w: %d peers", ErrFull, len(s.peers))
	}
	until := now.Add(time.Duration(r.Expires-r.Issued) * time.Millisecond)
	if last := time.UnixMilli(r.Expires).Add(MaxSkew); last.Before(until) {
		until = last
	}
	s.peers[r.Peer] = &entry{record: r, uid: r.UID(), signed: slices.Clone(signed), until: until}
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

// known lists the sequence numbers of what is alive, for a pull.
func (s *records) known(now time.Time) map[swarm.PeerID]uint64 {
	out := make(map[swarm.PeerID]uint64, len(s.peers))
	for p, e := range s.peers {
		if now.Before(e.until) && len(out) < wire.MaxKnown {
			out[p] = e.record.Seq
		}
	}
	return out
}

// unknownTo lists the envelopes of what is seen and newer than what the asker knows, the
// newest first, up to the limits of an answer; the next pull brings the rest. The asker's
// own record is told even under suspicion: after a restart it must know its last sequence.
func (s *records) unknownTo(asker swarm.PeerID, known map[swarm.PeerID]uint64, now time.Time) [][]byte {
	var news []*entry
	for p, e := range s.peers {
		seq, ok := known[p]
		if told := e.seen(now) || p == asker && now.Before(e.until); told && (!ok || seq < e.record.Seq) {
			news = append(news, e)
		}
	}
	slices.SortFunc(news, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.record.Seq, a.record.Seq), cmp.Compare(a.record.Peer, b.record.Peer))
	})
	out, size := [][]byte{}, 0
	for _, e := range news {
		size += (len(e.signed)+2)/3*4 + len(`"",`)
		if len(out) == wire.MaxRecords || size > wire.MaxRecordsSize {
			break
		}
		out = append(out, e.signed)
	}
	return out
}

// view is the snapshot of one model; its manifest is zero if nobody serves it.
func (s *records) view(uid swarm.UID, now time.Time) swarm.View {
	var m swarm.Manifest
	var all []swarm.Record
	for _, e := range s.peers {
		if e.uid == uid && e.seen(now) {
			m = e.record.Manifest
			all = append(all, *e.record)
		}
	}
	return swarm.NewView(m, now, all)
}

// views are the snapshots of all models, sorted by name and UID.
func (s *records) views(now time.Time) []swarm.View {
	uids := map[swarm.UID]swarm.Manifest{}
	for _, e := range s.peers {
		if e.seen(now) {
			uids[e.uid] = e.record.Manifest
		}
	}
	var out []swarm.View
	for uid := range uids {
		out = append(out, s.view(uid, now))
	}
	slices.SortFunc(out, func(a, b swarm.View) int {
		return cmp.Or(cmp.Compare(a.Manifest.Name, b.Manifest.Name), cmp.Compare(a.Manifest.UID(), b.Manifest.UID()))
	})
	return out
}
