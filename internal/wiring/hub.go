package wiring

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"whorl/model"
	"whorl/model/families"
	"whorl/model/hub"
	"whorl/model/weights"
	"whorl/swarm"
)

// HubOptions say how models are fetched from a hub, and what may lie on the disk for it.
type HubOptions struct {
	Token    string
	Revision string
	MaxDisk  Size
	Cache    string // folder of --cache-dir, of nodes that have one; "" for the hub client's own
}

// Config is what flags and the environment say of the hub.
func (f *HubOptions) Config(ctx context.Context) (hub.Config, error) {
	env := func(name string) string { return Getenv(ctx, name) }
	home := env("HOME")
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	cfg, err := hub.FromEnv(env, home)
	if err != nil {
		return cfg, Usage(err)
	}
	cfg.Agent, cfg.MaxDisk = "whorl/"+BuildVersion, int64(f.MaxDisk)
	if f.Token != "" {
		cfg.Token = f.Token
	}
	if f.Cache != "" {
		cfg.Cache = filepath.Join(f.Cache, "hub")
	}
	return cfg, nil
}

// name reads MODEL as the name of a model at a hub; false if it is none, or if a file or
// folder has that name.
func (f *HubOptions) name(model string) (hub.Name, bool, error) {
	n, ok := hubName(model)
	if !ok {
		return n, false, nil
	}
	if f.Revision != "" {
		var err error
		if n.Revision != "" && n.Revision != f.Revision {
			return n, false, Usagef("--revision %s and MODEL %s name two revisions: give one", f.Revision, model)
		}
		if n, err = hub.Parse(hub.Name{Repo: n.Repo, Revision: f.Revision, File: n.File}.String()); err != nil {
			return n, false, Usagef("--revision: %w", err)
		}
	}
	return n, true, nil
}

// hubName reads a text as a name at a hub; false if it is none, or if a file or folder has that
// name.
func hubName(text string) (hub.Name, bool) {
	if _, err := os.Stat(text); !errors.Is(err, fs.ErrNotExist) || localPath(text) {
		return hub.Name{}, false
	}
	n, err := hub.Parse(text)
	return n, err == nil
}

// localPath tells whether a text can only be meant as a path of this machine.
func localPath(text string) bool {
	return filepath.IsAbs(text) || strings.HasPrefix(text, ".") || strings.HasPrefix(text, "~") || strings.Count(text, "/") != 1 && !strings.Contains(text, ":") && !strings.Contains(text, "@") ||
		strings.HasSuffix(text, ".gguf") && !strings.Contains(text, ":") || strings.HasSuffix(text, ".json")
}

// fetched is a model that lies in the hub's cache, whole or in part.
type fetched struct {
	hub      *hub.Hub
	Snapshot *hub.Snapshot
	peers    bool         // its files are named by a swarm's manifest, and place is what a hub calls it
	place    string       // "" for none
	passed   func() int64 // how many bytes came from peers; nil: none
}

// sources are where bytes came from, of all that did.
func (x *fetched) sources(p hub.Progress) *swarm.Sources {
	s := &swarm.Sources{Cache: p.Cached}
	if x.passed != nil {
		s.Swarm = min(x.passed(), p.Done)
	}
	s.Hub = p.Done - s.Swarm
	return s
}

// Source finds MODEL: a path as it is, or a hub's model in the cache, whose small files are
// fetched. fetched is nil for a path.
func (f *HubOptions) Source(ctx context.Context, model string, offline bool) (weights.Source, *fetched, error) {
	n, ok, err := f.name(model)
	switch {
	case err != nil:
		return weights.Source{}, nil, err
	case !ok && f.Revision != "":
		return weights.Source{}, nil, Usagef("--revision belongs to a hub name, such as owner/name, and MODEL %s is a path", model)
	case !ok:
		return weights.Source{Path: model}, nil, nil
	}
	cfg, err := f.Config(ctx)
	if err != nil {
		return weights.Source{}, nil, err
	}
	cfg.Offline = cfg.Offline || offline
	x := &fetched{hub: hub.New(cfg)}
	defer x.Report(ctx)()
	if x.Snapshot, err = x.hub.Open(ctx, n); err != nil {
		return weights.Source{}, nil, HubError(ctx, "MODEL "+model, err)
	}
	src := weights.Source{Path: x.Snapshot.Path}
	if x.Snapshot.Partly() {
		src.Filler = x.Snapshot
	}
	slog.Info("model of the hub", "model", n.String(), "commit", x.Snapshot.Commit, "cache", cfg.Cache, "partly", x.Snapshot.Partly())
	return src, x, nil
}

// HubError says of a failure what the name could have meant beside. what is the name, and what it
// was given as.
func HubError(ctx context.Context, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ErrInterrupted
	case errors.Is(err, hub.ErrNotFound):
		return Usagef("%s is no file or folder here, and %w", what, err)
	}
	return Usagef("%s: %w", what, err)
}

// reportEvery is how often a long transfer tells the log how far it is, showEvery how often it tells who watches.
const (
	reportEvery = 5 * time.Second
	showEvery   = 200 * time.Millisecond
)

// Report tells how far transfers are until the function that it returns is called: the log, or who watches
// (WithFetching).
func (x *fetched) Report(ctx context.Context) (stop func()) {
	if x == nil {
		return func() {}
	}
	show, every := showing(ctx), reportEvery
	if show != nil {
		every = showEvery
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	began, first := time.Now(), x.hub.Progress()
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		smooth := 0.0
		for last := first; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			p := x.hub.Progress()
			if p.Done == p.Total {
				continue
			}
			rate := float64(p.Done-last.Done) / every.Seconds()
			if show != nil {
				smooth += (rate - smooth) / 5
				show(Fetching{Done: p.Done, Total: p.Total, Rate: smooth})
				last = p
				continue
			}
			left := "unknown"
			if rate > 0 {
				left = time.Duration(float64(p.Total-p.Done) / rate * float64(time.Second)).Round(time.Second).String()
			}
			slog.Info("fetching", "mib", p.Done>>20, "of", p.Total>>20, "mib_s", float64(int(10*rate/(1<<20)))/10, "left", left)
			last = p
		}
	}()
	return func() {
		cancel()
		<-done
		if show != nil {
			show(Fetching{Over: true})
		}
		if p := x.hub.Progress(); p.Done-first.Done > 1<<20 {
			slog.Info("fetched", "mib", (p.Done-first.Done)>>20, "took", time.Since(began).Round(time.Millisecond).String())
		}
	}
}

// All fetches all weights, and so checks whole files against the hub's hashes, as a founder
// does, whose manifest others trust.
func (x *fetched) All(ctx context.Context) error {
	if x == nil {
		return nil
	}
	defer x.Report(ctx)()
	return x.Snapshot.FillAll(ctx)
}

// name is what others fetch the model by; "" for a path of this machine.
func (x *fetched) name() string {
	switch {
	case x == nil:
		return ""
	case x.peers:
		return x.place
	}
	return x.Snapshot.Name.String()
}

// wrong forgets what a hub gave in part where that is not what the swarm serves: the hub, or what
// stood between, gave other bytes, and what was kept of them would be found wrong for ever.
func (x *fetched) wrong(err error) {
	if x == nil || x.peers || !errors.Is(err, model.ErrContents) || !x.Snapshot.Partly() {
		return
	}
	slog.Warn("what the hub gave of the model is not what the swarm serves: it is forgotten, and fetched again at the next start", "model", x.Snapshot.Name.String())
	if err := x.Snapshot.Forget(); err != nil {
		slog.Warn("it cannot be forgotten: delete it with `whorl models rm "+x.Snapshot.Name.Repo+"`", "reason", err)
	}
}

// Close lets the files be deleted when others need the room.
func (x *fetched) Close() error {
	if x == nil {
		return nil
	}
	return x.Snapshot.Close()
}

// fetch brings the weights of blocks [from, to) onto the disk, and those outside of blocks if
// asked to, and tells how far it is. It does nothing for files that are there.
func (m *Model) fetch(ctx context.Context, from, to int, head bool) error {
	defer m.fetched.Report(ctx)()
	return m.Checkpoint.Fetch(ctx, from, to, head)
}

// Outline is what is known of the model without its weights.
func (f *ModelOptions) Outline(ctx context.Context) (*model.Outline, error) {
	src, fetched, err := f.Hub.Source(ctx, f.Path, !f.Source.Has(FromHub))
	switch {
	case err != nil:
		return nil, err
	case fetched == nil:
		o, err := families.Outline(f.Path)
		if err != nil {
			return nil, ModelError(err)
		}
		return o, nil
	}
	defer fetched.Close()
	ck, err := families.OpenSource(ctx, src)
	if err != nil {
		return nil, ModelError(err)
	}
	defer ck.Close()
	return ck.Outline(), nil
}
