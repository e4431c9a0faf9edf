package audit

import (
	"maps"

	"whorl/swarm"
)

// maxDisputes bounds what is remembered of them.
const maxDisputes = 1024

// Link is a way from one server to the next of a chain.
type Link struct{ From, To swarm.PeerID }

// Disputes remembers links of which one end lied: the first pushed other rows than it showed, or
// the second made others of them than it should. Nobody can tell which, and liars could bring a
// dispute upon an honest server, so that it costs neither of them anything: routes merely do not
// take that link again while there is another. A liar ends up without neighbours. The zero value is
// empty. Not for concurrent use.
type Disputes struct {
	links map[Link]bool // replaced, never changed
	order []Link
}

// Add takes a dispute in; the oldest is forgotten for it if there are too many.
func (d *Disputes) Add(l Link) {
	if d.links[l] {
		return
	}
	links := map[Link]bool{l: true}
	maps.Copy(links, d.links)
	if d.order = append(d.order, l); len(d.order) > maxDisputes {
		delete(links, d.order[0])
		d.order = d.order[1:]
	}
	d.links = links
}

// Links are those in dispute. The result does not change any more.
func (d *Disputes) Links() map[Link]bool { return d.links }
