package dir

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"whorl/internal/backoff"
	"whorl/swarm"
	"whorl/swarm/wire"
)

const (
	// fetchesPerRound bounds the manifests asked for at a time, of a megabyte each at most: fewer
	// than the streams that a peer may have. fetchRounds is how many rounds follow an exchange
	// that told of more.
	fetchesPerRound = 6
	fetchRounds     = 8
	// fetchPause is waited between two rounds.
	fetchPause = 50 * time.Millisecond
	// fetchSources is how many peers are asked for one manifest before it has to wait.
	fetchSources = 3
)

// Keep has the directory hand out a manifest that this node serves or generates with, for as
// long as it runs.
func (d *Directory) Keep(m swarm.Manifest) error {
	if err := m.Validate(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records.keep(m)
	return nil
}

// lack asks for manifests that records name and this node does not have.
func (d *Directory) lack() {
	select {
	case d.lacking <- struct{}{}:
	default:
	}
}

// fetches gets the manifests that records name, as the records come.
func (d *Directory) fetches(ctx context.Context) {
	tick := time.NewTicker(d.cfg.Refresh)
	defer tick.Stop()
	for {
		d.fetchMissing(ctx, "")
		select {
		case <-ctx.Done():
			return
		case <-d.lacking:
			// What comes in a burst is asked for together, and one who fails costs a while.
			if !backoff.Wait(ctx, fetchPause) {
				return
			}
		case <-tick.C:
		}
	}
}

// fetchMissing asks for the manifests of live records that this node lacks: told, if not "",
// who has just named them, and then servers that announce them.
// While another call is at it, it returns at once: that one, or the next, fetches them.
func (d *Directory) fetchMissing(ctx context.Context, told swarm.PeerID) {
	if !d.fetching.TryLock() {
		d.lack()
		return
	}
	defer d.fetching.Unlock()
	// A newcomer who is told of many models must not have to wait for the next exchange to know
	// the one it came for.
	for range fetchRounds {
		if !d.fetchRound(ctx, told) || told == "" || ctx.Err() != nil {
			return
		}
	}
}

// complete waits until this node has, or has failed to get, what records name so far.
func (d *Directory) complete(ctx context.Context) {
	d.fetching.Lock()
	defer d.fetching.Unlock()
	d.fetchRound(ctx, "")
}

// fetchRound asks for some manifests at once, those in use here first, and tells whether some
// came and others are still to be asked for. fetching is held.
func (d *Directory) fetchRound(ctx context.Context, told swarm.PeerID) (more bool) {
	d.mu.Lock()
	uids, by := d.records.missing(d.wanted, d.cfg.Clock())
	d.mu.Unlock()
	var came atomic.Bool
	if len(uids) > fetchesPerRound {
		uids, more = uids[:fetchesPerRound], true
		d.lack()
	}
	round, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, uid := range uids {
		wg.Go(func() {
			err := d.fetch(round, uid, told, by[uid])
			if err == nil {
				came.Store(true)
			}
			if err == nil || ctx.Err() != nil {
				return
			}
			d.cfg.Log.Debug("manifest is not to be had", "model", uid, "reason", err)
			d.mu.Lock()
			d.records.manifests.fail(uid, d.cfg.Refresh, d.cfg.Clock())
			d.mu.Unlock()
		})
	}
	wg.Wait()
	return more && came.Load()
}

// fetch gets one manifest from the first of several peers that gives it.
func (d *Directory) fetch(ctx context.Context, uid swarm.UID, told swarm.PeerID, servers []swarm.PeerID) error {
	sources := make([]swarm.PeerID, 0, fetchSources)
	if told != "" {
		sources = append(sources, told)
	}
	for _, p := range servers {
		if p != told && p != d.host.ID() && len(sources) < fetchSources {
			sources = append(sources, p)
		}
	}
	if len(sources) == 0 {
		return nil // who tells of it next is asked, or a server that was reached then
	}
	var errs []error
	for _, p := range sources {
		raw, err := d.ask(ctx, p, uid)
		if err == nil {
			err = d.receive(uid, raw)
		}
		if err == nil {
			return nil
		}
		if swarm.CodeOf(err) == swarm.CodeBadFrame {
			d.warn("manifest "+string(p), "manifest refused", "peer", p, "reason", err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// receive takes in the bytes of a manifest.
func (d *Directory) receive(uid swarm.UID, raw []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	held, err := d.records.manifests.put(uid, raw, d.records.servers)
	if err == nil && !held {
		err = fmt.Errorf("%w of manifests", ErrFull)
	}
	if held {
		d.records.changeAll(uid)
		d.touch()
	}
	return err
}

// ask gets the bytes of a manifest from one peer.
func (d *Directory) ask(ctx context.Context, p swarm.PeerID, uid swarm.UID) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout/2)
	defer cancel()
	s, err := d.host.Dial(ctx, p, wire.ProtoDirectory)
	if err != nil {
		return nil, err
	}
	defer s.Reset()
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	want := wire.Want{Version: wire.Version, Features: wire.Features, Swarm: d.cfg.Swarm, UID: uid}
	if _, err := s.Write(wire.AppendJSON(nil, wire.TypeWant, want)); err != nil {
		return nil, err
	}
	r := wire.NewReader(bufio.NewReader(s))
	defer r.Release()
	r.Charge(ctx, nil, d.reading)
	t, payload, err := r.Next()
	switch {
	case err != nil:
		return nil, fmt.Errorf("manifest from %s: %w", p.Short(), err)
	case t == wire.TypeFail:
		var f wire.Fail
		if err := wire.Decode(t, payload, &f); err != nil {
			return nil, err
		}
		return nil, f.Err(p)
	case t != wire.TypeManifest:
		return nil, fmt.Errorf("%w: type %d in answer to a want", wire.ErrFrame, t)
	}
	return slices.Clone(payload), s.Close()
}

// give finds what a peer wants: the bytes of a manifest.
func (d *Directory) give(from swarm.PeerID, payload []byte) ([]byte, error) {
	var want wire.Want
	if err := d.readFirst(wire.TypeWant, payload, from, &want); err != nil {
		return nil, err
	}
	if err := d.sameSwarm(from, want.Swarm); err != nil {
		return nil, err
	}
	d.mu.Lock()
	h := d.records.manifests.held[want.UID]
	d.mu.Unlock()
	if h == nil {
		return nil, swarm.Errorf(swarm.CodeNotServed, swarm.Elsewhere, "node %s has no manifest %.64q", d.host.ID().Short(), string(want.UID))
	}
	return h.raw, nil
}
