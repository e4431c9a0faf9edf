package p2p

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"whorl/swarm"
)

const (
	// linkTTL is how long what was measured with a peer counts, linkEvery the time after which it
	// is measured again, linkRetry that after which it is tried again, linkHalf the age at which half of it is left beside a new figure.
	linkTTL   = 3 * time.Hour
	linkEvery = time.Hour
	linkRetry = time.Minute
	linkHalf  = 30 * time.Minute
	// linkWeight is the least weight of a new figure.
	linkWeight = 0.3
	// linkPairs is with how many peers a node measures: a hundredth of what its heartbeats and
	// exchanges may cost in bytes, and enough that one liar decides nothing.
	linkPairs = 3
	// maxLinks is how many are remembered, with those that could not be measured.
	maxLinks = 256
)

// between is what was measured with one peer.
type between struct {
	link swarm.Link
	zone zone      // where the peer is
	at   time.Time // of the last measurement; zero if there was none
	due  time.Time // when it is asked next
}

// links are what was measured with the peers of a node. The clock is passed in. Not safe for
// concurrent use.
type links map[peer.ID]between

// try notes that a peer is being asked.
func (l links) try(p peer.ID, now time.Time) {
	one := l[p]
	one.due = now.Add(linkRetry)
	if l[p] = one; len(l) > maxLinks {
		forget(l, func(one between) time.Time { return one.due }, now.Add(-linkTTL))
	}
}

// add takes a figure in. An older one counts beside it, the less the older it is.
func (l links) add(p peer.ID, link swarm.Link, at zone, now time.Time) {
	one := l[p]
	if w := 1.0; one.link != (swarm.Link{}) && now.Sub(one.at) < linkTTL {
		w = max(linkWeight, 1-math.Exp2(-now.Sub(one.at).Seconds()/linkHalf.Seconds()))
		link.Up, link.Down = w*link.Up+(1-w)*one.link.Up, w*link.Down+(1-w)*one.link.Down
	}
	l[p] = between{link, at, now, now.Add(linkEvery)}
}

// all is what passes between this node and its swarm, as far as is known. A pair is as slow as
// the slower of its ends, so that the fastest tells most of this one; of several the second is
// taken, since the far end of one may lie. Peers on the internet count before those of the site.
func (l links) all(now time.Time) (swarm.Link, bool) {
	widest := nowhere
	for _, one := range l {
		if !one.at.IsZero() && now.Sub(one.at) < linkTTL {
			widest = max(widest, one.zone)
		}
	}
	var up, down []float64
	for _, one := range l {
		if !one.at.IsZero() && now.Sub(one.at) < linkTTL && one.zone == widest {
			up, down = append(up, one.link.Up), append(down, one.link.Down)
		}
	}
	if len(up) == 0 {
		return swarm.Link{}, false
	}
	second := func(all []float64) float64 {
		slices.Sort(all)
		return all[max(0, len(all)-2)]
	}
	return swarm.Link{Up: second(up), Down: second(down)}, true
}

// next chooses whom to measure with now: somebody new while there are too few, else whoever is
// due; in the widest zone first. zoneOf tells where a peer is. "" is nobody.
func (l links) next(peers []peer.ID, zoneOf func(peer.ID) zone, now time.Time) peer.ID {
	fresh := 0
	for _, one := range l {
		if !one.at.IsZero() && now.Sub(one.at) < linkEvery {
			fresh++
		}
	}
	if fresh >= linkPairs {
		return ""
	}
	due := slices.DeleteFunc(slices.Clone(peers), func(p peer.ID) bool { return now.Before(l[p].due) })
	if len(due) == 0 {
		return ""
	}
	return slices.MinFunc(due, func(a, b peer.ID) int {
		return cmp.Or(cmp.Compare(zoneOf(b), zoneOf(a)), l[a].due.Compare(l[b].due), cmp.Compare(a, b))
	})
}
