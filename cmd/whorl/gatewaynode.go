package main

import (
	"context"
	"errors"
	"slices"

	"whorl/server"
	"whorl/swarm"
)

// gatewayFlags are those of a node that holds no blocks and drives generation for its users.
type gatewayFlags struct {
	node    nodeFlags
	share   shareFlags
	http    httpFlags
	model   modelFlags // of the one model, and how each of several is opened
	compute computeFlags
	memory  size     // without models: bytes for what the node computes of the swarm's
	names   []string // MODELs; one may be an invitation
}

// check refuses wrong values before anything is opened.
func (f *gatewayFlags) check(given given) error {
	args, err := f.node.accept(given, &f.model, f.names)
	if err != nil {
		return err
	}
	f.names = args
	if err := f.model.take(args[:min(len(args), 1)], true); err != nil {
		return err
	}
	switch {
	case len(f.http.tunings) > 0 && f.model.path == "" && !f.model.peers:
		return usagef("--prompt-tuning belongs to one model, and none is named: whorl gateway MODEL --prompt-tuning DIR")
	case len(args) > 1 && f.model.name != "":
		return usagef("--model-name names one model, and there are %d: leave it out", len(args))
	case len(args) > 1 && len(f.http.tunings) > 0:
		return usagef("--prompt-tuning belongs to one model, and there are %d: start a gateway for that one", len(args))
	}
	if err := f.node.check(given); err != nil {
		return err
	}
	if err := f.http.check(given); err != nil {
		return err
	}
	if f.http.http == off {
		return usagef("--http off leaves a gateway nothing to do: give an address")
	}
	return nil
}

// run is the life of the node, from its options to its end with ctx.
func (f *gatewayFlags) run(ctx context.Context, given given) error {
	if err := f.check(given); err != nil {
		return err
	}
	if len(f.names) > 1 {
		return f.runSeveral(ctx, given)
	}
	return f.runOne(ctx, given)
}

// runOne is run for one model, or for all of the swarm.
func (f *gatewayFlags) runOne(ctx context.Context, given given) error {
	nf, sf, hf, mf, cf := &f.node, f.share, &f.http, &f.model, &f.compute
	var m *openModel
	defer func() { // after the node's end, and it may be opened late
		if m != nil {
			m.Close()
		}
	}()
	mf.hub.cache, mf.trees, nf.source = nf.cacheDir, nf.treeCache(ctx), mf.place
	if mf.path != "" {
		var err error
		if m, err = mf.open(ctx, cf); err != nil {
			return err
		}
		nf.source = m.fetched.name()
	}
	ctx, n, err := startNode(ctx, []string{"gateway"}, nf, hf)
	if err != nil {
		return err
	}
	defer n.close()
	if m != nil || mf.peers {
		n.check("engine", errStarting)
	}
	if err := n.join(ctx); err != nil {
		return ended(ctx, err)
	}
	if m != nil || mf.peers {
		if err := errors.Join(n.startSharing(sf, mf.patience()), n.startEvidence(ctx)); err != nil {
			return err
		}
	}
	if mf.peers {
		n.share.about(swarm.UID(mf.invited))
		if m, err = mf.openPeers(ctx, cf, n.net, n.share.client, mf.choosable(given)); err != nil {
			return ended(ctx, err)
		}
	}
	if m != nil {
		n.loads(m.fetched)
		// Files that are all here say what the model is. Of others nobody fetches all for that: the
		// node waits for somebody who serves the model.
		how := settling{invited: mf.invited, choosable: mf.choosable(given), found: m.ck.Whole(), block: -1, all: true, cache: nf.contentsCache(ctx)}
		if err := n.settled(ctx, m, how, func(err error) { n.check("engine", err) }); err != nil {
			return ended(ctx, err)
		}
		n.gives(ctx, m)
		if err := n.generateWith(ctx, m, hf); err != nil {
			m.fetched.wrong(err)
			return ended(ctx, err)
		}
	}
	if m == nil {
		sf.off = true // what it has of a model may leave at any time
		if err := errors.Join(n.startSharing(sf, askPatience), n.startEvidence(ctx)); err != nil {
			return err
		}
		room := int64(f.memory)
		if room == 0 {
			free, err := server.FreeRoom()
			if err != nil {
				return err
			}
			room = free.Bytes / 2
		}
		n.serveShelf(newShelf(n, *mf, cf, hf, room, func(f func(context.Context)) {
			n.background.Go(func() { f(ctx) })
		}))
	}
	if err := n.usable(); err != nil {
		return err
	}
	<-ctx.Done()
	return ended(ctx, nil)
}

// runSeveral is run for several models that are named. What happens to one of them once the
// node runs does not touch the others.
func (f *gatewayFlags) runSeveral(ctx context.Context, given given) error {
	nf, hf, mf, cf := &f.node, &f.http, f.model, &f.compute
	mf.hub.cache, mf.trees = nf.cacheDir, nf.treeCache(ctx)
	var models []*openModel
	defer func() { // after the node's end
		for _, m := range models {
			m.Close()
		}
	}()
	for _, name := range f.names {
		one := mf
		one.path = name
		m, err := one.open(ctx, cf)
		if err != nil {
			return err
		}
		models = append(models, m)
		if slices.ContainsFunc(models[:len(models)-1], func(o *openModel) bool { return o.name == m.name }) {
			return usagef("two of the models are named %s, and users ask by that name: name one of them", m.name)
		}
	}
	ctx, n, err := startNode(ctx, []string{"gateway"}, nf, hf)
	if err != nil {
		return err
	}
	defer n.close()
	if err := n.join(ctx); err != nil {
		return ended(ctx, err)
	}
	if err := n.startEvidence(ctx); err != nil {
		return err
	}
	for _, m := range models {
		how := settling{choosable: mf.choosable(given), found: m.ck.Whole(), block: -1, all: true, cache: nf.contentsCache(ctx)}
		n.background.Go(func() { n.keepTrying(ctx, m, how, hf) })
	}
	if err := n.usable(); err != nil {
		return err
	}
	<-ctx.Done()
	return ended(ctx, nil)
}
