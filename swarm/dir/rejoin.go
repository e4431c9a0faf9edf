package dir

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"whorl/internal/atomicfile"
	"whorl/internal/backoff"
	"whorl/swarm"
	"whorl/swarm/p2p"
)

// maxWait caps the time between two attempts to reach an initial peer: a bootstrap that is
// back is found within it.
const maxWait = 30 * time.Second

// action is what a watcher asks for.
type action int

const (
	rest action = iota
	lost        // the last initial peer is gone
	dial        // try again to reach one
	back        // one is connected again
)

// watcher decides when a node without initial peers dials again. Pure.
type watcher struct {
	lonely time.Duration // how long to wait before the first attempt
	since  time.Time     // when the last one was lost; zero while there is one
	next   time.Time
	wait   time.Duration
	dials  int // since then
}

// step is told how many initial peers are connected now.
func (w *watcher) step(now time.Time, connected int) action {
	switch {
	case connected > 0 && w.since.IsZero():
		return rest
	case connected > 0:
		w.since = time.Time{}
		return back
	case w.since.IsZero():
		w.since, w.dials, w.next = now, 0, now.Add(w.lonely)
		return lost
	case now.Before(w.next):
		return rest
	}
	w.dials++
	w.wait = backoff.Policy{First: w.lonely, Max: max(w.lonely, maxWait)}.After(w.dials, 0)
	w.next = now.Add(w.wait)
	return dial
}

// rejoins keeps the node connected to its initial peers for ever: when all are gone it
// dials them with a growing wait, and peers seen lately when it has no peer at all; when
// some are, it dials the rest now and then, so that a swarm that started in two parts grows
// together.
func (d *Directory) rejoins(ctx context.Context) {
	defer d.savePeers()
	w := watcher{lonely: d.cfg.Lonely}
	tick := time.NewTicker(min(d.cfg.Refresh, d.cfg.Lonely))
	defer tick.Stop()
	var alone time.Time
	var saved time.Time
	quiet := d.cfg.Clock()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := d.cfg.Clock()
		if d.met() && now.Sub(saved) > time.Minute { // the first time as soon as there is anybody to save
			saved = now
			d.savePeers()
		}
		_, initial := d.starts()
		if len(initial) == 0 {
			continue
		}
		missing := d.missing(initial)
		switch w.step(now, len(initial)-len(missing)) {
		case lost:
			alone = now
			d.metrics.lost.Inc()
			d.cfg.Log.Warn("lost the last initial peer", "peers", d.host.Connected())
		case back:
			d.cfg.Log.Info("an initial peer is back", "after", now.Sub(alone).Round(time.Second))
			d.Refresh()
		case dial:
			d.metrics.rejoins.Inc()
			if err := d.reachInitial(ctx); err != nil && ctx.Err() == nil {
				d.cfg.Log.Warn("cannot rejoin, trying again", "in", w.wait, "reason", err)
			}
		case rest:
			if len(missing) > 0 && w.since.IsZero() && now.Sub(quiet) > maxWait {
				quiet = now
				d.reconnect(ctx, missing)
			}
		}
	}
}

// starts are the addresses that this node starts from, and whose they are.
func (d *Directory) starts() ([]string, []swarm.PeerID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.boot, d.initial
}

// startFrom replaces them; what cannot be read is left out.
func (d *Directory) startFrom(addrs []string) {
	var initial []swarm.PeerID
	if infos, err := p2p.ParsePeers(addrs); err == nil {
		for _, i := range infos {
			initial = append(initial, swarm.PeerID(i.ID.String()))
		}
	}
	d.mu.Lock()
	d.boot, d.initial = addrs, initial
	d.mu.Unlock()
}

// lookUp looks the lists among the first peers up again, which may have changed since. What
// cannot be looked up stays as it was.
func (d *Directory) lookUp(ctx context.Context) error {
	if !slices.ContainsFunc(d.cfg.Bootstrap, p2p.IsList) {
		return nil
	}
	addrs, err := d.host.Resolve(ctx, d.cfg.Bootstrap)
	if err != nil {
		d.warn("lists", "first peers cannot be looked up", "reason", err)
		before, _ := d.starts()
		for _, a := range before {
			if !slices.Contains(addrs, a) {
				addrs = append(addrs, a)
			}
		}
	}
	if len(addrs) > 0 {
		d.startFrom(addrs)
		return nil
	}
	return err
}

// missing lists the initial peers that are not connected, but for this node.
func (d *Directory) missing(initial []swarm.PeerID) []swarm.PeerID {
	var out []swarm.PeerID
	for _, p := range initial {
		id, err := peer.Decode(string(p))
		if err == nil && p != d.host.ID() && d.host.Libp2p().Network().Connectedness(id) != network.Connected {
			out = append(out, p)
		}
	}
	return out
}

// reconnect dials initial peers without a word if they are still away.
func (d *Directory) reconnect(ctx context.Context, missing []swarm.PeerID) {
	addrs, _ := d.starts()
	infos, err := p2p.ParsePeers(addrs)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	for _, i := range infos {
		if slices.Contains(missing, swarm.PeerID(i.ID.String())) {
			if err := d.host.Libp2p().Connect(ctx, i); err != nil {
				d.cfg.Log.Debug("initial peer is away", "peer", i.ID, "reason", err)
			}
		}
	}
}

// reachInitial dials the initial peers, and those seen lately if none answers and nobody
// else is connected.
func (d *Directory) reachInitial(ctx context.Context) error {
	err := d.lookUp(ctx)
	if err == nil {
		addrs, _ := d.starts()
		err = d.host.Bootstrap(ctx, addrs)
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, p2p.ErrIdentityInUse) || d.host.Connected() > 0 {
		return err
	}
	return d.reachSeen(ctx, err)
}

// reachSeen dials peers seen earlier; err is why those that the operator named do not do.
func (d *Directory) reachSeen(ctx context.Context, err error) error {
	recent := d.recentPeers()
	if saved, ferr := loadPeers(d.cfg.PeersPath); ferr != nil {
		d.warn("peers file", "saved peers cannot be read", "reason", ferr)
	} else {
		recent = append(recent, saved...)
	}
	if len(recent) == 0 {
		return err
	}
	seen := d.host.Bootstrap(ctx, recent)
	switch {
	case seen == nil:
		d.cfg.Log.Info("joined through a peer seen earlier")
		d.metrics.finds.WithLabelValues(byCache).Inc()
		return nil
	case ctx.Err() != nil || errors.Is(seen, p2p.ErrIdentityInUse):
		return seen
	}
	return fmt.Errorf("%w; nor does any of %d addresses of peers seen earlier", err, len(recent))
}

// maxSaved is how many peers are kept for bad times.
const maxSaved = 32

// met tells whether any peer with a record was reached.
func (d *Directory) met() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, e := range d.records.peers {
		if p != d.host.ID() && !e.reached.IsZero() {
			return true
		}
	}
	return false
}

// recentPeers lists addresses of servers, those that were reached first and of them the newest
// records.
func (d *Directory) recentPeers() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*entry
	for p, e := range d.records.peers {
		if p != d.host.ID() {
			all = append(all, e)
		}
	}
	hearsay := func(e *entry) int {
		if e.reached.IsZero() {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(hearsay(a), hearsay(b)), cmp.Compare(b.record.Issued, a.record.Issued))
	})
	var out []string
	for _, e := range all[:min(len(all), maxSaved)] {
		for _, a := range e.record.Addrs {
			out = append(out, a+"/p2p/"+string(e.record.Peer))
		}
	}
	return out
}

// savePeers writes the recent peers, if there are any: in bad times the old list is worth
// more than an empty one.
func (d *Directory) savePeers() {
	peers := d.recentPeers()
	if d.cfg.PeersPath == "" || len(peers) == 0 {
		return
	}
	b, err := json.MarshalIndent(peers, "", "\t")
	if err == nil {
		err = atomicfile.Write(d.cfg.PeersPath, append(b, '\n'), 0o600)
	}
	if err != nil {
		d.warn("peers file", "peers cannot be saved", "reason", err)
	}
}

// loadPeers reads what savePeers wrote; no file is an empty list.
func loadPeers(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var peers []string
	if err := json.Unmarshal(b, &peers); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(peers) == 0 {
		return nil, nil
	}
	if _, err := p2p.ParsePeers(peers); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return peers, nil
}
