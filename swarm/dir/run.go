package dir

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"whorl/swarm"
	"whorl/swarm/p2p"
)

// Run joins the swarm and keeps the directory fresh until the context ends. It returns an
// error only if the node cannot join: no first peer answers, they are of another swarm, or
// this node's identity is in use.
func (d *Directory) Run(ctx context.Context) error {
	if err := d.join(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { d.refreshes(ctx) })
	wg.Go(func() { d.watchLost(ctx) })
	wg.Go(func() { d.pings(ctx) })
	wg.Go(func() { d.provideAndFind(ctx) })
	wg.Go(func() { d.rejoins(ctx) })
	wg.Go(func() { d.fetches(ctx) })
	<-ctx.Done()
	return nil
}

// join dials the first peers and exchanges records with one of them. Until then this node
// is nobody to the swarm: if its identity turns out to be in use it leaves unseen.
func (d *Directory) join(ctx context.Context) error {
	if len(d.cfg.Bootstrap) > 0 {
		if err := d.reachInitial(ctx); err != nil {
			return err
		}
		for {
			if d.host.Connected() == 0 { // gone again at once
				if err := d.reachInitial(ctx); err != nil {
					return err
				}
			}
			heard, refusal := d.tell(ctx, tellers)
			if heard > 0 {
				break
			}
			if refusal != nil {
				return refusal
			}
			if d.findWanted(ctx) {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d.cfg.Refresh):
			}
		}
		if err := d.checkTwin(ctx); err != nil {
			return err
		}
	} else if err := d.comeBack(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	d.heard = d.cfg.Clock()
	d.mu.Unlock()
	close(d.first)
	return nil
}

// comeBack has a founder that was there before find those who stayed; where nobody did it
// founds anew.
func (d *Directory) comeBack(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	if err := d.reachSeen(short, errors.New("nobody was named")); errors.Is(err, p2p.ErrIdentityInUse) {
		return err
	}
	if d.host.Connected() == 0 {
		return ctx.Err()
	}
	d.tell(ctx, tellers)
	return d.checkTwin(ctx)
}

// Synced is nil while exchanges with the swarm succeed. An error says since when nobody
// has answered: what is known may then be old, and an empty view means nothing. A founder
// that nobody has joined yet knows all there is to know.
func (d *Directory) Synced() error {
	alone := d.host.Connected() == 0
	d.mu.Lock()
	defer d.mu.Unlock()
	silent := d.cfg.Clock().Sub(d.heard)
	if alone && len(d.cfg.Bootstrap) == 0 || silent <= staleAfter*d.cfg.Refresh {
		return nil
	}
	if d.heard.IsZero() {
		return errors.New("no node of the swarm has answered yet")
	}
	return fmt.Errorf("no node of the swarm has answered for %v", silent.Round(time.Second))
}

// checkTwin looks whether the maker of a record with our identity, if one was heard of, is
// still there and is not this process.
func (d *Directory) checkTwin(ctx context.Context) error {
	d.mu.Lock()
	r := d.foreign
	d.foreign = nil
	d.mu.Unlock()
	if r == nil {
		return nil
	}
	ours := d.host.ListenAddrs()
	return d.host.Twin(ctx, slices.DeleteFunc(slices.Clone(r.Addrs), func(a string) bool { return slices.Contains(ours, a) }))
}

// refreshes exchanges records with tellers and forgets what has expired. A teller that hangs
// does not hold it up: what others know would grow old.
func (d *Directory) refreshes(ctx context.Context) {
	var pulls sync.WaitGroup
	defer pulls.Wait()
	tick := time.NewTicker(d.cfg.Refresh)
	defer tick.Stop()
	for {
		d.renew()
		d.tellFor(ctx, tellers, d.cfg.Refresh, &pulls)
		d.mu.Lock()
		if d.records.prune(d.cfg.Clock()) {
			d.touch()
		}
		gone := d.records.evicted()
		d.mu.Unlock()
		for _, p := range gone {
			d.host.Forget(p)
		}
		if err := d.checkTwin(ctx); err != nil {
			d.metrics.twins.Inc()
			d.warn("twin", "another process announces itself as this node", "reason", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-d.kick:
		}
	}
}

// watchLost checks peers whose connection ended, and those that a session suspects: one that
// does not answer a ping is hidden at once, long before its record expires, and one that
// answers is seen again.
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
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
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

// pings measures the round trips to servers and so finds those that hang.
func (d *Directory) pings(ctx context.Context) {
	tick := time.NewTicker(d.cfg.Refresh)
	defer tick.Stop()
	for {
		var wg sync.WaitGroup
		for _, p := range d.duePings() {
			wg.Go(func() { d.check(ctx, p) })
		}
		wg.Wait()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// duePings lists the servers of the next round.
func (d *Directory) duePings() []swarm.PeerID {
	now, used := d.cfg.Clock(), d.host.Used()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records.use(used, time.Now()) // which is the clock of the host
	wanted := maps.Clone(d.wanted)
	if d.own != nil {
		wanted[d.own.UID] = now
	}
	return d.records.due(pingsPerRefresh, wanted, restFor*d.cfg.Refresh, now)
}

// Meet tries to reach servers of the models of a name that nobody here has had contact
// with, some of every group of peers, and returns when each has answered or had its time.
func (d *Directory) Meet(ctx context.Context, name string) {
	d.complete(ctx) // records tell no names
	now := d.cfg.Clock()
	d.mu.Lock()
	due := d.records.strangers(name, pingsPerRefresh, now)
	d.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, p := range due {
		wg.Go(func() { d.check(ctx, p) })
	}
}

// check pings a peer and draws the conclusion.
func (d *Directory) check(ctx context.Context, p swarm.PeerID) {
	pctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := d.host.Ping(pctx, p)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.mu.Lock()
		news := d.records.fail(p, rand.Float64(), d.cfg.Clock())
		if news {
			d.touch()
		}
		d.mu.Unlock()
		if news {
			d.metrics.suspects.WithLabelValues("no_answer").Inc()
			d.warn("silent "+string(p), "server does not answer", "peer", p, "reason", err)
		}
		return
	}
	d.reached(p)
	d.prove(pctx, p)
}

// prove tries the addresses of a record whose peer connected from none of them: until one
// of them answers, the record is not handed on.
func (d *Directory) prove(ctx context.Context, p swarm.PeerID) {
	d.mu.Lock()
	addrs := d.records.unproven(p, rand.Float64(), d.cfg.Clock())
	d.mu.Unlock()
	if len(addrs) > 0 && d.host.Proves(ctx, p, addrs) {
		d.mu.Lock()
		d.records.prove(p)
		d.mu.Unlock()
	}
}
