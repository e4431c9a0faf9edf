package hub

import "context"

// Files of a LoRA adapter, as the PEFT library saves it.
const (
	adapterConfig  = "adapter_config.json"
	adapterWeights = "adapter_model.safetensors"
	adapterPickle  = "adapter_model.bin"
)

// OpenAdapter finds a LoRA adapter at the hub, or in the cache as Open does, and fetches its two
// files whole, which are checked by the hub's hashes. Path is their folder.
func (h *Hub) OpenAdapter(ctx context.Context, n Name) (*Snapshot, error) {
	if n.File != "" {
		return nil, failed(ErrNotFound, nil, "%s names a file, and an adapter is a repository: leave out :%s", n, n.File)
	}
	l, err := h.look(ctx, n)
	if err != nil {
		return nil, err
	}
	return h.opened(n, l, func(s *Snapshot) error { return s.buildAdapter(ctx, l) })
}

// buildAdapter fetches an adapter and lays out the view.
func (s *Snapshot) buildAdapter(ctx context.Context, l *listing) error {
	s.Path = place{cache: s.h.cfg.Cache, repo: s.Name.Repo}.view(s.Commit)
	var files []File
	for _, name := range []string{adapterConfig, adapterWeights} {
		f, ok := l.file(name)
		if !ok {
			return noAdapter(l, name)
		}
		files = append(files, f)
	}
	if files[0].Size > maxSmall {
		return failed(ErrDamaged, nil, "%s of %s has %d bytes: it is no configuration", adapterConfig, l.Repo, files[0].Size)
	}
	return s.lay(ctx, l, files)
}

// noAdapter says of a repository that lacks a file of an adapter what it is instead.
func noAdapter(l *listing, lacks string) error {
	if _, ok := l.file(adapterPickle); ok && lacks == adapterWeights {
		return failed(ErrNotFound, nil, "%s has its weights as %s, a pickle, which can run code when it is read: take one that has %s", l.Repo, adapterPickle, adapterWeights)
	}
	return failed(ErrNotFound, nil, "%s holds no %s: it is no LoRA adapter as the PEFT library saves them", l.Repo, lacks)
}
