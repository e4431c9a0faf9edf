package wiring

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"whorl/model"
	"whorl/model/hub"
	"whorl/model/lora"
	"whorl/swarm"
)

// adapter is an open LoRA adapter, and its files where they are a hub's.
type adapter struct {
	*lora.Adapter
	from *fetched // nil for a folder of this machine
}

// Close unmaps the file, and lets the cache delete it when others need the room.
func (a *adapter) Close() error { return errors.Join(a.Adapter.Close(), a.from.Close()) }

// names is what users ask for it by.
func (a *adapter) names() swarm.Adapter { return swarm.Adapter{Name: a.Name, Digest: a.Digest} }

// openAdapter opens an adapter for a model: a folder of this machine, which its last element
// names, or owner/name[@revision] of the hub, which owner/name names. One of the hub is
// fetched and compared with the hub's hashes first.
func (f *ModelOptions) openAdapter(ctx context.Context, text string, ck *model.Checkpoint) (*adapter, error) {
	n, atHub := hubName(text)
	if !atHub {
		a, err := lora.Open(text, ck)
		if err != nil {
			return nil, err
		}
		return &adapter{Adapter: a}, nil
	}
	cfg, err := f.Hub.Config(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Offline = cfg.Offline || !f.Source.Has(FromHub)
	x := &fetched{hub: hub.New(cfg)}
	defer x.Report(ctx)()
	if x.Snapshot, err = x.hub.OpenAdapter(ctx, n); err != nil {
		return nil, HubError(ctx, text, err)
	}
	a, err := lora.Open(x.Snapshot.Path, ck)
	if err != nil {
		x.Close()
		return nil, err
	}
	a.Name = n.Repo
	slog.Info("adapter of the hub", "name", a.Name, "commit", x.Snapshot.Commit)
	return &adapter{a, x}, nil
}

// openAdapters opens the adapters that a flag names, and gives the name of the last.
func (f *ModelOptions) openAdapters(ctx context.Context, m *Model, flag string, texts []string) (string, error) {
	if len(texts) > swarm.MaxAdapters {
		return "", Usagef("%s names %d adapters: a server announces at most %d, so start another for the rest", flag, len(texts), swarm.MaxAdapters)
	}
	name := ""
	for _, text := range texts {
		a, err := f.openAdapter(ctx, text, m.Checkpoint)
		if errors.Is(err, ErrInterrupted) {
			return "", err
		}
		if err != nil {
			return "", Usagef("%s: %w", flag, err)
		}
		m.adapters = append(m.adapters, a)
		name = a.Name
		if slices.ContainsFunc(m.adapters[:len(m.adapters)-1], func(b *adapter) bool { return a.Name == b.Name }) {
			return "", Usagef("%s: two adapters are named %s, and users ask by that name: rename one", flag, a.Name)
		}
		if err := a.names().Validate(); err != nil {
			return "", Usagef("%s %s: %w", flag, text, err)
		}
		slog.Info("adapter", "name", a.Name, "digest", a.Digest[:12])
	}
	return name, nil
}

// held is what users ask for them by.
func (m *Model) held() []swarm.Adapter {
	var out []swarm.Adapter
	for _, a := range m.adapters {
		out = append(out, a.names())
	}
	return out
}

// loras are the adapters as blocks take them.
func (m *Model) loras() []*lora.Adapter {
	var out []*lora.Adapter
	for _, a := range m.adapters {
		out = append(out, a.Adapter)
	}
	return out
}
