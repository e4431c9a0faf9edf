package dir

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ipfs/go-cid"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multihash"

	"whorl/swarm"
	"whorl/swarm/p2p"
)

// Run joins the swarm and keeps the directory fresh until the context ends. It returns
// early only if no first peer answers at the start.
func (d *Directory) Run(ctx context.Context) error {
	if len(d.cfg.Bootstrap) > 0 {
		if err := d.host.Bootstrap(ctx, d.cfg.Bootstrap); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { d.watchLost(ctx) })
	wg.Go(func() { d.provideAndFind(ctx) })
	tick := time.NewTicker(d.cfg.Refresh)
	defer tick.Stop()
	begin, alone := time.Now(), time.Time{}
	for {
		heard := d.tell(ctx, tellers)
		d.expire()
		if heard > 0 || len(d.cfg.Bootstrap) == 0 || time.Since(begin) > exchangeTimeout {
			d.joined()
		}
		d.pingServers(ctx)
		alone = d.rejoin(ctx, alone)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-d.kick:
		}
	}
}

// joined opens the first View.
func (d *Directory) joined() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.first:
	default:
		close(d.first)
	}
}

func (d *Directory) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.records.prune(time.Now()) {
		d.touch()
	}
}

// rejoin dials the first peers again when the node has been alone for a while; it returns
// since when it is alone.
func (d *Directory) rejoin(ctx context.Context, alone time.Time) time.Time {
	if d.host.Connected() > 0 || len(d.cfg.Bootstrap) == 0 {
		if !alone.IsZero() {
			d.cfg.Log.Info("back in the swarm", "alone", time.Since(alone).Round(time.Second))
		}
		return time.Time{}
	}
	if alone.IsZero() {
		d.cfg.Log.Warn("no peer is connected")
		return time.Now()
	}
	if time.Since(alone) >= d.cfg.Lonely {
		if err := d.host.Bootstrap(ctx, d.cfg.Bootstrap); err != nil && ctx.Err() == nil {
			d.cfg.Log.Warn("cannot rejoin the swarm, will try again", "reason", err)
		}
	}
	return alone
}

// watchLost checks peers whose connection ended: one that does not answer a ping is
// suspected at once, long before its record expires.
func (d *Directory) watchLost(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, pingsPerRefresh)
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-d.lost:
			if !d.knows(p) {
				continue
			}
			slots <- struct{}{}
			wg.Go(func() {
				d.check(ctx, p)
				<-slots
			})
		}
	}
}

func (d *Directory) knows(p swarm.PeerID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records.peers[p] != nil
}

// check pings a peer and draws the conclusion.
func (d *Directory) check(ctx context.Context, p swarm.PeerID) {
	pctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := d.host.Ping(pctx, p)
	if ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	news := false
	if err != nil {
		news = d.records.suspect(p)
	} else {
		news = d.records.clear(p)
	}
	if news {
		d.touch()
	}
	d.mu.Unlock()
	if news && err != nil {
		d.cfg.Log.Warn("server does not answer", "peer", p, "reason", err)
	}
}

// pingServers measures the round trips to servers that were asked about, the longest
// unmeasured ones first, and checks the suspects among them.
func (d *Directory) pingServers(ctx context.Context) {
	d.mu.Lock()
	var due []swarm.PeerID
	for p, e := range d.records.peers {
		if p != d.host.ID() && e.record.State >= swarm.Joining {
			due = append(due, p)
		}
	}
	d.mu.Unlock()
	slices.SortFunc(due, func(a, b swarm.PeerID) int { return strings.Compare(string(a), string(b)) })
	if len(due) > pingsPerRefresh {
		d.mu.Lock()
		at := d.lastPull * pingsPerRefresh % len(due)
		d.mu.Unlock()
		due = slices.Concat(due[at:], due[:at])[:pingsPerRefresh]
	}
	var wg sync.WaitGroup
	for _, p := range due {
		wg.Go(func() { d.check(ctx, p) })
	}
	wg.Wait()
}

// provideAndFind keeps provider records of what this node serves alive, and looks for
// providers of models that were asked for: their records come by the next exchange.
func (d *Directory) provideAndFind(ctx context.Context) {
	provided := map[swarm.UID]time.Time{}
	found := map[swarm.UID]time.Time{}
	for {
		d.mu.Lock()
		var own, wanted []swarm.UID
		for uid, r := range d.own {
			if r.State >= swarm.Joining && time.Since(provided[uid]) > provideEvery {
				own = append(own, uid)
			}
		}
		for uid, at := range d.wanted {
			if time.Since(at) < provideValidity && time.Since(found[uid]) > findEvery {
				wanted = append(wanted, uid)
			}
		}
		changed := d.changed
		d.mu.Unlock()
		for _, uid := range own {
			if d.host.Connected() > 0 && d.provide(ctx, uid) == nil {
				provided[uid] = time.Now()
			}
		}
		for _, uid := range wanted {
			found[uid] = time.Now()
			d.find(ctx, uid)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(d.cfg.Refresh):
		}
	}
}

func key(uid swarm.UID) (cid.Cid, error) {
	h, err := multihash.Sum([]byte("whorl model "+uid), multihash.SHA2_256, -1)
	if err != nil {
		return cid.Undef, err
	}
	return cid.NewCidV1(cid.Raw, h), nil
}

func (d *Directory) provide(ctx context.Context, uid swarm.UID) error {
	c, err := key(uid)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	if err := d.dht.Provide(ctx, c, true); err != nil {
		d.cfg.Log.Debug("cannot provide", "model", uid, "reason", err)
		return err
	}
	return nil
}

// find connects to providers of a model that are not known yet and pulls from them.
func (d *Directory) find(ctx context.Context, uid swarm.UID) {
	c, err := key(uid)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	for info := range d.dht.FindProvidersAsync(ctx, c, findLimit) {
		p := swarm.PeerID(info.ID.String())
		if info.ID == d.host.Libp2p().ID() || d.knows(p) {
			continue
		}
		if err := d.host.Libp2p().Connect(ctx, peer.AddrInfo{ID: info.ID, Addrs: info.Addrs}); err == nil {
			d.exchange(ctx, p)
		}
	}
}

// bootstrapIDs are the first peers, which are asked before others.
func (d *Directory) bootstrapIDs() []swarm.PeerID {
	infos, err := p2p.ParsePeers(d.cfg.Bootstrap)
	if err != nil {
		return nil
	}
	var out []swarm.PeerID
	for _, i := range infos {
		out = append(out, swarm.PeerID(i.ID.String()))
	}
	return out
}
