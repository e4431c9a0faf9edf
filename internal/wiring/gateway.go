package wiring

import (
	"context"
	"errors"
	"slices"
	"sync"

	"whorl/server"
	"whorl/swarm"
)

// Gateway are those of a node that holds no blocks and drives generation for its users.
type Gateway struct {
	Node    NodeOptions
	Share   ShareOptions
	HTTP    HTTPOptions
	Model   ModelOptions // of the one model, and how each of several is opened
	Compute ComputeOptions
	Memory  Size     // without models: bytes for what the node computes of the swarm's
	Names   []string // MODELs; one may be an invitation
}

// check refuses wrong values before anything is opened.
func (f *Gateway) check(given given) error {
	args, err := f.Node.accept(given, &f.Model, &f.HTTP.Residual, f.Names)
	if err != nil {
		return err
	}
	f.Names = args
	if err := f.Model.Take(args[:min(len(args), 1)], true); err != nil {
		return err
	}
	if len(args) > 1 && f.Model.Name != "" {
		return Usagef("--model-name names one model, and there are %d: leave it out", len(args))
	}
	if err := f.Node.check(given); err != nil {
		return err
	}
	if err := f.HTTP.check(given); err != nil {
		return err
	}
	if f.HTTP.HTTP == Off {
		return Usagef("--http off leaves a gateway nothing to do: give an address")
	}
	if f.Model.Path == "" && !f.Model.Peers {
		return checkTunings(f.HTTP.tuned, nil)
	}
	return nil
}

// Run is the life of the node, from its options to its end with ctx.
func (f *Gateway) Run(ctx context.Context, given given) error {
	if err := f.check(given); err != nil {
		return err
	}
	if len(f.Names) > 1 {
		return f.runSeveral(ctx, given)
	}
	return f.runOne(ctx, given)
}

// runOne is run for one model, or for all of the swarm.
func (f *Gateway) runOne(ctx context.Context, given given) error {
	nf, sf, hf, mf, cf := &f.Node, f.Share, &f.HTTP, &f.Model, &f.Compute
	var m *Model
	defer func() { // after the node's end, and it may be opened late
		if m != nil {
			m.Close()
		}
	}()
	mf.Hub.Cache, mf.trees, nf.source = nf.CacheDir, nf.treeCache(ctx), mf.Place
	if mf.Path != "" {
		var err error
		if m, err = mf.Open(ctx, cf); err != nil {
			return err
		}
		nf.source = m.fetched.name()
	}
	ctx, n, err := startNode(ctx, []string{"gateway"}, nf, hf)
	if err != nil {
		return err
	}
	defer n.close()
	if m != nil || mf.Peers {
		n.check("engine", errStarting)
	}
	if err := n.join(ctx); err != nil {
		return ended(ctx, err)
	}
	if m != nil || mf.Peers {
		if err := errors.Join(n.startSharing(sf, mf.patience()), n.startEvidence(ctx)); err != nil {
			return err
		}
	}
	if mf.Peers {
		n.share.about(swarm.UID(mf.invited))
		if m, err = mf.openPeers(ctx, cf, n.net, n.share.client, mf.choosable(given)); err != nil {
			return ended(ctx, err)
		}
	}
	if m != nil {
		n.loads(m.fetched)
		// Files that are all here say what the model is. Of others nobody fetches all for that: the
		// Node waits for somebody who serves the model.
		how := settling{invited: mf.invited, choosable: mf.choosable(given), found: m.Checkpoint.Whole(), block: -1, all: true, cache: nf.contentsCache(ctx)}
		if err := n.settled(ctx, m, how, func(err error) { n.check("engine", err) }); err != nil {
			return ended(ctx, err)
		}
		n.gives(ctx, m)
		if err := n.generateWith(ctx, m, hf, true); err != nil {
			m.fetched.wrong(err)
			return ended(ctx, err)
		}
	}
	if m == nil {
		sf.Off = true // what it has of a model may leave at any time
		if err := errors.Join(n.startSharing(sf, askPatience), n.startEvidence(ctx)); err != nil {
			return err
		}
		room := int64(f.Memory)
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
// Node runs does not touch the others.
func (f *Gateway) runSeveral(ctx context.Context, given given) error {
	nf, hf, mf, cf := &f.Node, &f.HTTP, f.Model, &f.Compute
	mf.Hub.Cache, mf.trees = nf.CacheDir, nf.treeCache(ctx)
	var models []*Model
	defer func() { // after the node's end
		for _, m := range models {
			m.Close()
		}
	}()
	for _, name := range f.Names {
		one := mf
		one.Path = name
		m, err := one.Open(ctx, cf)
		if err != nil {
			return err
		}
		models = append(models, m)
		if slices.ContainsFunc(models[:len(models)-1], func(o *Model) bool { return o.Name == m.Name }) {
			return Usagef("two of the models are named %s, and users ask by that name: name one of them", m.Name)
		}
	}
	if err := checkTunings(hf.tuned, models); err != nil {
		return err
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
	var trying sync.WaitGroup
	for _, m := range models {
		how := settling{choosable: mf.choosable(given), found: m.Checkpoint.Whole(), block: -1, all: true, cache: nf.contentsCache(ctx)}
		trying.Go(func() { n.keepTrying(ctx, m, how, hf) })
	}
	n.background.Go(func() {
		if trying.Wait(); ctx.Err() == nil {
			n.unused(hf.tuned)
		}
	})
	if err := n.usable(); err != nil {
		return err
	}
	<-ctx.Done()
	return ended(ctx, nil)
}
