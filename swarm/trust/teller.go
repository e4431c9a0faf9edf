package trust

import (
	"cmp"
	"slices"
	"time"

	"whorl/swarm"
)

// name is what is known of a peer or a prefix as a teller.
type name struct {
	looks float64
	at    time.Time // as of when
	mutes int
	mute  time.Time // until then nothing is heard
	words int
	since time.Time // the first of words
}

// keys are the names under which a teller answers: its own, and its prefix if that says something.
func keys(teller swarm.PeerID, prefix string) []string {
	if prefix == "" {
		return []string{"peer " + string(teller)}
	}
	return []string{"peer " + string(teller), "net " + prefix}
}

// name finds or makes what is known of a teller; mu is held.
func (d *Docket) name(k string, now time.Time) *name {
	n := d.names[k]
	if n == nil {
		if len(d.names) >= d.p.Names {
			d.forget(now)
		}
		n = &name{looks: d.p.Looks, at: now}
		d.names[k] = n
	}
	if since := now.Sub(n.at); since > 0 {
		n.looks = min(d.p.Looks, n.looks+since.Seconds()*d.p.LooksRate)
		n.at = now
	}
	if n.words > 0 && now.Sub(n.since) > d.p.WordsTime {
		n.words = 0
	}
	return n
}

// forget drops an eighth of the names: those first that are not muted, and of them those heard
// longest ago.
func (d *Docket) forget(now time.Time) {
	all := make([]string, 0, len(d.names))
	for k := range d.names {
		all = append(all, k)
	}
	muted := func(k string) int {
		if now.Before(d.names[k].mute) {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(muted(a), muted(b)), d.names[a].at.Compare(d.names[b].at), cmp.Compare(a, b))
	})
	for _, k := range all[:max(1, len(all)/8)] {
		delete(d.names, k)
	}
}

// blame hears nothing of a teller for a while, nor of its prefix, and drops what it told; mu is held.
func (d *Docket) blame(teller swarm.PeerID, prefix string, now time.Time) {
	for i, k := range keys(teller, prefix) {
		n := d.name(k, now)
		n.mutes++
		if i > 0 && n.mutes < d.p.MutePrefix {
			continue
		}
		n.mute = now.Add(min(d.p.Mute<<min(n.mutes-1, 8), d.p.Life))
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(c *charge) bool { return c.teller == teller && !c.taken })
}
