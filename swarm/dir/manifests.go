package dir

import (
	"cmp"
	"slices"
	"time"

	"whorl/content"
	"whorl/swarm"
)

// Bounds on the manifests that a node keeps for others. Each was fetched because a record
// named it, so they are at most as many as the models of the store.
const (
	maxManifests     = 512
	maxManifestBytes = 32 << 20 // of all, as they travel
)

// manifests are what UIDs name, as far as this node knows. Pure: the clock is passed in. Not
// for concurrent use.
type manifests struct {
	held   map[swarm.UID]*heldManifest
	bytes  int
	failed map[swarm.UID]failure // no more than records name
}

// failure says that nobody could give a manifest.
type failure struct {
	times int
	retry time.Time // not before
}

type heldManifest struct {
	m    swarm.Manifest
	raw  []byte // the canonical form
	kept bool   // this node serves it or generates with it: never dropped
}

func newManifests() manifests {
	return manifests{held: map[swarm.UID]*heldManifest{}, failed: map[swarm.UID]failure{}}
}

// keep takes in a manifest of this node's own; it tells its name, and whether it is new here.
func (s *manifests) keep(m swarm.Manifest) (uid swarm.UID, news bool) {
	raw := m.Encode()
	uid = swarm.UID(content.Sum(raw).String())
	news = s.held[uid] == nil
	s.drop(uid)
	s.add(uid, &heldManifest{m, raw, true})
	return uid, news
}

// put takes in what somebody sent for a UID and keeps it; servers tells how many records name a UID. It
// makes room by dropping those that fewer servers announce, and tells whether the manifest
// is held now. The error says what was wrong with the bytes.
func (s *manifests) put(uid swarm.UID, raw []byte, servers func(swarm.UID) int) (bool, error) {
	if s.held[uid] != nil {
		return true, nil
	}
	if got := swarm.UID(content.Sum(raw).String()); got != uid {
		return false, &swarm.Error{Code: swarm.CodeBadFrame, Verdict: swarm.Elsewhere, Message: "the bytes of a manifest are not what its UID names: " + string(got) + " instead of " + string(uid)}
	}
	m, err := swarm.DecodeManifest(raw)
	if err != nil {
		return false, &swarm.Error{Code: swarm.CodeBadFrame, Verdict: swarm.Elsewhere, Message: "manifest " + string(uid), Err: err}
	}
	for len(s.held) >= maxManifests || s.bytes+len(raw) > maxManifestBytes {
		least, n := s.least(servers)
		if least == "" || n >= servers(uid) {
			return false, nil
		}
		s.drop(least)
	}
	s.add(uid, &heldManifest{m, raw, false})
	return true, nil
}

func (s *manifests) add(uid swarm.UID, h *heldManifest) {
	s.held[uid] = h
	s.bytes += len(h.raw)
	delete(s.failed, uid)
}

func (s *manifests) drop(uid swarm.UID) {
	if h := s.held[uid]; h != nil {
		s.bytes -= len(h.raw)
		delete(s.held, uid)
	}
}

// fail notes that nobody could give a manifest. It is not asked for again before a refresh
// is over, then two, four, up to 256.
func (s *manifests) fail(uid swarm.UID, refresh time.Duration, now time.Time) {
	f := s.failed[uid]
	s.failed[uid] = failure{f.times + 1, now.Add(refresh << min(f.times, 8))}
}

// least is the manifest that the fewest servers announce, and how many do.
func (s *manifests) least(servers func(swarm.UID) int) (least swarm.UID, n int) {
	for uid, h := range s.held {
		if k := servers(uid); !h.kept && (least == "" || cmp.Or(cmp.Compare(k, n), cmp.Compare(uid, least)) < 0) {
			least, n = uid, k
		}
	}
	return least, n
}

// missing lists the UIDs of live records whose manifest is not held and may be asked for,
// those that are in use here first, then those with the most servers that were reached first, and for each which servers those are:
// nobody is dialled for the sake of whoever spreads its record.
func (s *records) missing(wanted map[swarm.UID]time.Time, now time.Time) (uids []swarm.UID, by map[swarm.UID][]swarm.PeerID) {
	by = map[swarm.UID][]swarm.PeerID{}
	for p, e := range s.peers {
		uid := e.record.UID
		if !e.seen(now) || s.manifests.held[uid] != nil || now.Before(s.manifests.failed[uid].retry) {
			continue
		}
		if by[uid] == nil {
			by[uid] = []swarm.PeerID{}
		}
		if !e.reached.IsZero() {
			by[uid] = append(by[uid], p)
		}
	}
	for uid, peers := range by {
		slices.Sort(peers)
		uids = append(uids, uid)
	}
	slices.SortFunc(uids, func(a, b swarm.UID) int {
		return cmp.Or(wanted[b].Compare(wanted[a]), cmp.Compare(len(by[b]), len(by[a])), cmp.Compare(a, b))
	})
	return uids, by
}

// servers counts the records that name a UID.
func (s *records) servers(uid swarm.UID) (n int) {
	for _, e := range s.peers {
		if e.record.UID == uid {
			n++
		}
	}
	return n
}

// forget drops manifests and failures that no record names any more.
func (s *records) forget() {
	named := map[swarm.UID]bool{}
	for _, e := range s.peers {
		named[e.record.UID] = true
	}
	for uid, h := range s.manifests.held {
		if !h.kept && !named[uid] {
			s.manifests.drop(uid)
		}
	}
	for uid := range s.manifests.failed {
		if !named[uid] {
			delete(s.manifests.failed, uid)
		}
	}
}
