package wiring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"whorl/content"
	"whorl/model"
	"whorl/model/hub"
	"whorl/model/weights"
	"whorl/swarm"
	"whorl/swarm/balance"
	"whorl/swarm/share"
)

// Sources of a model's bytes, in the order in which they are asked.
const (
	FromCache = "cache" // whole models of a hub on this machine
	FromSwarm = "swarm"
	FromHub   = "hub"
)

// Sources chooses among them.
type Sources []string

// Has tells whether a source may be asked; of a command without the flag all may.
func (f Sources) Has(s string) bool { return f == nil || slices.Contains(f, s) }

func (f Sources) check() error {
	for _, s := range f {
		if s != FromCache && s != FromSwarm && s != FromHub {
			return Usagef("--source: %.40q is unknown: want some of cache, swarm, hub", s)
		}
	}
	if f != nil && len(f) == 0 {
		return Usagef("--source is empty: want some of cache, swarm, hub")
	}
	return nil
}

// manifestLine is how often somebody who waits for a manifest is told so.
const manifestLine = 30 * time.Second

// manifest waits until the swarm tells what a UID names, or ctx ends.
func (n *network) manifest(ctx context.Context, uid swarm.UID, name string) (swarm.Manifest, error) {
	line := time.NewTicker(manifestLine)
	defer line.Stop()
	for {
		changed := n.Directory.Changed()
		v, err := n.Directory.View(ctx, uid)
		if err != nil {
			return swarm.Manifest{}, err
		}
		if v.Manifest.Blocks > 0 {
			return v.Manifest, nil
		}
		select {
		case <-changed:
		case <-line.C:
			slog.Info("waiting for a server of the model", "model", name, "uid", string(uid)[:min(12, len(uid))])
		case <-ctx.Done():
			return swarm.Manifest{}, ctx.Err()
		}
	}
}

// fromPeers opens the model that a manifest names: its files come from other nodes, and from
// the hub what those lack.
type fromPeers struct {
	hub    *hub.Hub
	client *share.Client
	man    swarm.Manifest
	place  string   // at the hub; "" if that is not to be asked
	name   hub.Name // of place

	passed atomic.Int64 // bytes that peers sent

	mu     sync.Mutex // guards bundle.hashes and remote
	bundle *bundle
	remote *hub.Remote // after its first use
}

// Notes beside the files of peers.
const (
	noteBundle   = "bundle"
	notePieces   = "pieces-"
	NoteManifest = "manifest-"
)

// key names the folder that holds a manifest's files.
func key(man swarm.Manifest) string { return man.Files.String()[:40] }

// remember keeps what a restart needs where nobody else is there.
func (p *fromPeers) remember(name string, data []byte) {
	if err := p.hub.SaveNote(key(p.man), name, data); err != nil {
		slog.Warn("what is known of the model's files cannot be kept", "reason", err)
	}
}

// remembered is the manifest of a model whose files are here, or some of them.
func remembered(h *hub.Hub, uid string) (swarm.Manifest, bool) {
	_, raw := h.FindNote(NoteManifest + uid)
	man, err := swarm.DecodeManifest(raw)
	return man, err == nil && string(man.UID()) == uid
}

// list finds out which files there are.
func (p *fromPeers) list(ctx context.Context) error {
	raw := p.hub.Note(key(p.man), noteBundle)
	if content.Tree(raw) != p.man.Files {
		var err error
		if raw, err = p.client.Small(ctx, p.man.Files); err != nil {
			return err
		}
	}
	list, err := share.DecodeBundle(raw)
	if err == nil {
		err = checkFiles(list)
	}
	if err != nil {
		return fmt.Errorf("the list of the model's files, which its founder made: %w", err)
	}
	p.remember(noteBundle, raw)
	p.remember(NoteManifest+string(p.man.UID()), p.man.Encode())
	p.bundle = &bundle{Bundle: list, hashes: map[content.Hash][]content.Hash{}}
	return nil
}

// checkFiles refuses lists with files that no model has: the small ones are fetched whole.
func checkFiles(list share.Bundle) error {
	for _, f := range list.Files {
		if !model.FileName(f.Name) {
			return fmt.Errorf("%.100q is no file of a model", f.Name)
		}
	}
	return nil
}

// trees are those of the pieces of a file.
func (p *fromPeers) trees(ctx context.Context, o share.Object) ([]content.Hash, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hashes, ok := p.bundle.hashes[o.Root]
	if ok {
		return hashes, nil
	}
	name := notePieces + o.Root.String()
	hashes = splitHashes(p.hub.Note(key(p.man), name))
	if !o.Fits(hashes) {
		var err error
		if hashes, err = p.client.Hashes(ctx, o); err != nil {
			return nil, err
		}
		if o.Pieces() > 1 {
			p.remember(name, joinHashes(hashes))
		}
	}
	p.bundle.hashes[o.Root] = hashes
	return hashes, nil
}

// fetch is a hub.Origin.
func (p *fromPeers) fetch(ctx context.Context, f hub.File, chunks []int, write hub.Write) error {
	root, err := content.Parse(f.Hash)
	if err != nil {
		return err
	}
	o := share.Object{Root: root, Size: f.Size}
	hashes, err := p.trees(ctx, o)
	if err != nil {
		return p.explain(err, f)
	}
	err = p.client.Fetch(ctx, o, hashes, chunks, func(c int, data []byte) error {
		p.passed.Add(int64(len(data)))
		return write(c, hashes[c], data)
	})
	if m := (*share.Missing)(nil); errors.As(err, &m) && p.place != "" {
		slog.Info("the hub is asked for what nobody in the swarm has", "file", f.Path, "mib", len(m.Lacking))
		if herr := p.fetchHub(ctx, f, hashes, m.Lacking, write); herr != nil {
			return errors.Join(p.explain(err, f), herr)
		}
		return nil
	}
	return p.explain(err, f)
}

// explain says of bytes that nobody has what to do.
func (p *fromPeers) explain(err error, f hub.File) error {
	if errors.Is(err, share.ErrNobody) {
		return fmt.Errorf("%s of %s: %w: its holders are away, or share nothing (--no-share). Try again when they are back, or name the model's files as MODEL", f.Path, p.man.Name, err)
	}
	return err
}

// fetchHub asks the hub for chunks, and checks them as if a peer had sent them.
func (p *fromPeers) fetchHub(ctx context.Context, f hub.File, hashes []content.Hash, chunks []int, write hub.Write) error {
	r, err := p.atHub(ctx)
	if err != nil {
		return err
	}
	there := r.Files
	for i, g := range r.GGUF() {
		g.Path, there = model.GGUFPart(i, len(r.GGUF())), append(there, g)
	}
	i := slices.IndexFunc(there, func(g hub.File) bool { return g.Path == f.Path && g.Size == f.Size })
	if i < 0 {
		return fmt.Errorf("%s at the hub has no %s of %d bytes: it is another revision", p.place, f.Path, f.Size)
	}
	at := there[i]
	if parts := r.GGUF(); strings.HasSuffix(f.Path, ".gguf") {
		at = parts[slices.IndexFunc(parts, func(g hub.File) bool { return g.Hash == at.Hash })]
	}
	return r.Chunks(ctx, at, chunks, func(c int, data []byte) error {
		if content.Tree(data) != hashes[c] {
			return fmt.Errorf("%s of %s at the hub has other bytes than the swarm's: it is another revision", f.Path, p.place)
		}
		return write(c, hashes[c], data)
	})
}

// atHub is the model at the hub, which is asked once.
func (p *fromPeers) atHub(ctx context.Context) (*hub.Remote, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.remote == nil {
		p.remote, err = p.hub.Remote(ctx, p.name)
	}
	return p.remote, err
}

// open opens the files.
func (p *fromPeers) open(ctx context.Context) (weights.Source, *fetched, error) {
	if err := p.list(ctx); err != nil {
		return weights.Source{}, nil, err
	}
	var files []hub.File
	for _, f := range p.bundle.Files {
		files = append(files, hub.File{Path: f.Name, Size: f.Size, Hash: f.Root.String(), Tree: true})
	}
	x := &fetched{hub: p.hub, peers: true, place: p.place, passed: p.passed.Load}
	defer x.Report(ctx)()
	var err error
	if x.Snapshot, err = p.hub.OpenTrees(ctx, key(p.man), files, p.fetch); err != nil {
		return weights.Source{}, nil, err
	}
	// What is here of which file is known by its pieces, for those who ask for it.
	for _, f := range p.bundle.Files {
		if _, err := p.trees(ctx, f.Object); err != nil {
			x.Close()
			return weights.Source{}, nil, err
		}
	}
	src := weights.Source{Path: x.Snapshot.Path}
	if x.Snapshot.Partly() {
		src.Filler = x.Snapshot
	}
	return src, x, nil
}

// errNotShared says that a model's files cannot be fetched from other nodes.
var errNotShared = errors.New("its files are not passed on")

// openPeers opens the model of an invitation whose files are not on this machine: from a hub's
// cache if all of it is there, from other nodes, or from the hub.
func (f *ModelOptions) openPeers(ctx context.Context, c *ComputeOptions, n *network, client *share.Client, choosable bool) (*Model, error) {
	cfg, err := f.Hub.Config(ctx)
	if err != nil {
		return nil, err
	}
	if !f.Source.Has(FromHub) {
		cfg.Offline = true
	}
	h := hub.New(cfg)
	man, known := remembered(h, f.invited)
	if !known {
		if man, err = n.manifest(ctx, swarm.UID(f.invited), f.Name); err != nil {
			return nil, err
		}
	}
	if f.Namespace != "" && f.Namespace != man.Namespace {
		return nil, Usagef("the invitation is to a model in the namespace %q, and --dht-prefix says %q: leave it out", man.Namespace, f.Namespace)
	}
	f.Namespace = man.Namespace
	if f.Place != "" && f.Source.Has(FromCache) {
		m, err := f.openCached(ctx, c, man)
		if err == nil {
			return m, nil
		}
		slog.Debug("the hub's cache is passed by", "model", f.Place, "reason", err)
	}
	if man.Shared() && f.Source.Has(FromSwarm) {
		p := &fromPeers{hub: h, client: client, man: man}
		if name, ok, _ := f.Hub.name(f.Place); ok && f.Source.Has(FromHub) {
			p.place, p.name = f.Place, name
		}
		src, x, err := p.open(ctx)
		if errors.Is(err, share.ErrNobody) && p.place != "" {
			slog.Info("nobody in the swarm passes the model's files on: they are fetched from the hub", "model", f.Place)
			f.Path = f.Place
			return f.Open(ctx, c)
		}
		if err != nil {
			return nil, err
		}
		m, err := f.opened(ctx, c, src, x)
		if err != nil {
			return nil, err
		}
		m.files = p.bundle
		if err := m.bind(man, choosable); err != nil {
			m.Close()
			return nil, err
		}
		return m, nil
	}
	if f.Place != "" && f.Source.Has(FromHub) {
		f.Path = f.Place
		return f.Open(ctx, c)
	}
	if man.Shared() && !f.Source.Has(FromSwarm) {
		return nil, Usagef("--source leaves out the swarm, and no other source has %s: add swarm, or give the path of its files behind the invitation", man.Name)
	}
	return nil, Usagef("the model %s of the invitation: %w, since %s. Give the path of its files behind the invitation", man.Name, errNotShared, why(man))
}

// openCached opens the invitation's model from a hub's cache on this machine, if all of it is
// there and it is what the manifest says. No request leaves.
func (f *ModelOptions) openCached(ctx context.Context, c *ComputeOptions, man swarm.Manifest) (*Model, error) {
	name, ok, err := f.Hub.name(f.Place)
	if err != nil || !ok {
		return nil, errors.Join(err, fmt.Errorf("%s is no name at a hub", f.Place))
	}
	cfg, err := f.Hub.Config(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Offline = true
	x := &fetched{hub: hub.New(cfg)}
	if x.Snapshot, err = x.hub.Open(ctx, name); err != nil {
		return nil, err
	}
	if x.Snapshot.Partly() {
		x.Close()
		return nil, fmt.Errorf("only a part of %s is here", f.Place)
	}
	m, err := f.opened(ctx, c, weights.Source{Path: x.Snapshot.Path}, x)
	if err != nil {
		return nil, err
	}
	if err := m.compare(man, -1, model.Contents{}, false); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// bind takes over the manifest that the model's files were fetched by. Files that are not
// what it describes are its founder's mistake, or lie.
func (m *Model) bind(man swarm.Manifest, choosable bool) error {
	m.Name = man.Name
	if err := m.describe(); err != nil {
		return err
	}
	switch {
	case !balance.SameModel(m.Manifest, man), m.Manifest.Tokenizer != man.Tokenizer && !man.Tokenizer.IsZero():
		return Usagef("the files that the manifest %.12s names are not of the model that it describes: its founder made a mistake, or lies. Ask for another invitation", man.UID())
	case !choosable && m.Manifest.Class != man.Class:
		return Usagef("the swarm serves %s in the class %v, and the flags ask for %v: leave out --dtype, --quant and --kv-dtype", man.Name, man.Class, m.Manifest.Class)
	}
	load, kv, ok := m.inClass(man.Class)
	if !ok {
		return Usagef("the swarm serves %s in the class %v, which this device cannot give", man.Name, man.Class)
	}
	m.load, m.kv, m.Manifest = load, kv, man
	return nil
}
