package dir

import (
	"cmp"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// What a node costs others, and they it, must not grow with the swarm. Nodes tell each other
// what has changed, by the place in the teller's log where they stopped; they stay with
// their tellers for longer, and renew their records less often, the more records there are.

const (
	// A teller that this node has not asked for long offers everything: offerRate bounds what
	// that costs, in bytes a second for each teller.
	offerRate = 100
	// beatEvery is how much each record of a swarm adds to the time between the heartbeats of a
	// node: what a node hears, some 200 bytes from each of them, comes to 3.5 kB/s at most.
	beatEvery = 60 * time.Millisecond
	// restateEvery is the same for static parts of which only the round trips have changed,
	// of some 700 bytes: 1 kB/s.
	restateEvery = 700 * time.Millisecond
	// crowd is how many records make a swarm in which initial peers could not answer everybody:
	// they are then asked as all others are.
	crowd = 128
	// tellings and tellingsRate bound the records that a prefix tells: at once, and per second.
	tellings     = maxTold
	tellingsRate = 64
	maxTellers   = 1024 // prefixes that are remembered for it
)

// change notes that others may want to hear of a peer.
func (s *records) change(p swarm.PeerID) {
	e := s.peers[p]
	if e == nil {
		return
	}
	s.changes++
	if e.change = s.changes; e.place == nil {
		e.place = s.changed.PushBack(p)
	} else {
		s.changed.MoveToBack(e.place)
	}
	if len(e.part.Beat) > 0 {
		s.beats[e.tag.Beat], s.statics[e.tag.Static] = p, p
	}
}

// changeAll notes that the records of a model may be told now.
func (s *records) changeAll(uid swarm.UID) {
	for p, e := range s.peers {
		if e.record.UID == uid {
			s.change(p)
		}
	}
}

// unlist takes what a peer's old entry stands for out of the indexes, as far as its next one,
// nil for none, does not stand for the same.
func (s *records) unlist(p swarm.PeerID, old, next *entry) {
	if next == nil || next.tag.Beat != old.tag.Beat {
		if s.beats[old.tag.Beat] == p {
			delete(s.beats, old.tag.Beat)
		}
	}
	if next == nil || next.tag.Static != old.tag.Static {
		if s.statics[old.tag.Static] == p {
			delete(s.statics, old.tag.Static)
		}
	}
	if old.place != nil && (next == nil || next.place != old.place) {
		s.changed.Remove(old.place)
	}
}

// tellable tells whether a record may be told to an asker. Its own is told even under suspicion:
// after a restart it must know its last sequence. Others are told once this node can give the
// manifest that they name as well.
func (s *records) tellable(p, asker swarm.PeerID, e *entry, now time.Time) bool {
	if len(e.part.Beat) == 0 {
		return false
	}
	return s.manifests.held[e.record.UID] != nil && e.told(now) || (p == asker || p == s.self) && now.Before(e.until)
}

// offer lists what has changed since some place in this log, the oldest change first and most
// records at most, with what may then be chosen of it.
func (s *records) offer(asker swarm.PeerID, pull *wire.Pull, now time.Time) (*wire.Offer, []wire.Part) {
	since, most := pull.Since, min(max(0, pull.Most), wire.MaxOffered)
	if pull.Log != s.log {
		since = 0
	}
	o := &wire.Offer{Now: now.UnixMilli(), Log: s.log, At: s.changes}
	var parts []wire.Part
	at := s.changed.Back()
	for at != nil && s.peers[at.Value.(swarm.PeerID)].change > since {
		at = at.Prev()
	}
	if at == nil {
		at = s.changed.Front()
	} else {
		at = at.Next()
	}
	last := since
	for ; at != nil; at = at.Next() {
		p := at.Value.(swarm.PeerID)
		e := s.peers[p]
		if s.tellable(p, asker, e, now) {
			if len(parts) == most {
				o.More, o.At = true, last
				break
			}
			left := min(max(e.until.Sub(now).Milliseconds(), 1), int64(swarm.MaxLifetime/time.Millisecond))
			o.All = append(o.All, wire.Offered{Tag: e.tag, Left: uint32(left)})
			parts = append(parts, e.part)
		}
		last = e.change
	}
	if own := pull.Own; own != nil {
		_, beat := s.beats[own.Beat]
		_, still := s.statics[own.Static]
		o.Beat, o.Static = !beat, !beat && !still
	}
	return o, parts
}

// pick says which records of an offer this node lacks, up to most; all tells whether that
// is all of them.
func (s *records) pick(o *wire.Offer, most int, from source, now time.Time) (c wire.Choice, n int, all bool) {
	c.Beats, c.Statics, all = wire.NewBits(len(o.All)), wire.NewBits(len(o.All)), true
	for i, e := range o.All {
		if p, ok := s.beats[e.Beat]; ok {
			from.left = time.Duration(e.Left) * time.Millisecond
			s.vouch(p, from)
			s.extend(p, from, now)
			continue
		}
		if n == most {
			return c, n, false
		}
		n++
		c.Beats.Set(i)
		if _, ok := s.statics[e.Static]; !ok {
			c.Statics.Set(i)
		}
	}
	return c, n, all
}

// extend lets a record live as long as the teller says that gives it most time: who says less may lie.
func (s *records) extend(p swarm.PeerID, from source, now time.Time) {
	if e := s.peers[p]; e != nil {
		if until := ends(e.record, from, now); until.After(e.until) {
			e.until = until
		}
	}
}

// allowance is what a prefix may still tell.
type allowance struct {
	left float64
	at   time.Time
}

// allow is how many records of a teller are looked at now; spend takes them from its prefix.
func (s *records) allow(from source, now time.Time) int {
	if from.named {
		return wire.MaxOffered
	}
	a := s.told[from.prefix]
	if a == nil {
		return tellings
	}
	return int(min(tellings, a.left+now.Sub(a.at).Seconds()*tellingsRate))
}

func (s *records) spend(from source, n int, now time.Time) {
	if from.named || n == 0 {
		return
	}
	left := s.allow(from, now)
	if s.told[from.prefix] == nil && len(s.told) >= maxTellers { // whoever has its full allowance is forgotten
		for prefix := range s.told {
			if s.allow(source{prefix: prefix}, now) == tellings {
				delete(s.told, prefix)
			}
		}
	}
	s.told[from.prefix] = &allowance{float64(left - n), now}
}

// size is how many records count as those of the swarm: not those that only strangers tell.
func (s *records) size() (n int) {
	for _, e := range s.peers {
		if e.named || !e.reached.IsZero() {
			n++
		}
	}
	return n
}

// stay is how long a node keeps to a teller.
func stay(records int) time.Duration {
	return time.Duration(records) * (20 * time.Second / offerRate)
}

// lifetime is how long a heartbeat counts in a swarm of so many records, at least as long as
// its node asks for, and pace how long to wait before the next one that says nothing but figures.
func lifetime(records int, asked time.Duration) time.Duration {
	return min(max(asked, 3*pace(records)), swarm.MaxLifetime)
}

func pace(records int) time.Duration {
	return min(time.Duration(records)*beatEvery, swarm.MaxLifetime/3)
}

// rotation counts the turns of a node's tellers.
type rotation struct {
	turn int
	last time.Time
}

// at is the turn at a time, in a swarm of so many records.
func (r *rotation) at(records int, now time.Time) int {
	if now.Sub(r.last) >= stay(records)/tellers || now.Before(r.last) {
		r.turn++
		r.last = now
	}
	return r.turn
}

// chooseTellers takes up to n of the connected peers: initial ones for up to half of them,
// rounded up, since everybody tells those, unless it is a crowd; the others by lots that each node
// draws for itself. Each turn one of them changes.
func chooseTellers(self swarm.PeerID, initial, connected []swarm.PeerID, n, turn int, crowded bool) []swarm.PeerID {
	var out []swarm.PeerID
	take := func(most int) {
		for i := range initial {
			if p := initial[(i+turn)%len(initial)]; len(out) < most && slices.Contains(connected, p) && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	if !crowded {
		take((n + 1) / 2)
	}
	// Every place draws lots of its own, and draws them anew in its turn: peers that come and go
	// disturb no other place.
	for place := 0; len(out) < n && place < n; place++ {
		lot := lots(self, (turn+place)/n*n+place)
		best, least := swarm.PeerID(""), uint64(0)
		for _, p := range connected {
			if l := lot(p); !slices.Contains(out, p) && (crowded || !slices.Contains(initial, p)) &&
				(best == "" || cmp.Or(cmp.Compare(l, least), cmp.Compare(p, best)) < 0) {
				best, least = p, l
			}
		}
		if best != "" {
			out = append(out, best)
		}
	}
	take(n) // where there are no others
	return out
}

// lots are what a node draws for each peer: FNV-1a of the draw, the node and the peer.
func lots(self swarm.PeerID, draw int) func(swarm.PeerID) uint64 {
	const basis, prime = 0xcbf29ce484222325, 0x100000001b3
	begin := uint64(basis)
	for i := range 8 {
		begin = (begin ^ uint64(draw)>>(8*i)&0xff) * prime
	}
	add := func(x uint64, s swarm.PeerID) uint64 {
		for i := range len(s) {
			x = (x ^ uint64(s[i])) * prime
		}
		return x
	}
	begin = add(begin, self)
	return func(p swarm.PeerID) uint64 {
		x := add(begin, p)
		x ^= x >> 33 // FNV leaves the high bits of short texts alike
		x *= 0xff51afd7ed558ccd
		return x ^ x>>33
	}
}
