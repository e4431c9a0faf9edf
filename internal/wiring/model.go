package wiring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"whorl/client"
	"whorl/model"
	"whorl/model/families"
	"whorl/model/tokenizer"
	"whorl/model/weights"
	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/tensor"
)

// Model is a model on disk and the device that will compute it.
type Model struct {
	Checkpoint *model.Checkpoint
	Device     tensor.Device
	load       model.LoadOptions
	kv         tensor.DType // of the KV cache
	Name       string
	Manifest   swarm.Manifest // what it is served as; without the names of weights before settle
	Head       *model.Head    // after engine

	namespace string // that the manifest is in
	adapters  []*adapter
	fetched   *fetched  // nil: the files are somebody else's
	files     *bundle   // as they are passed on; nil if nobody made it yet
	trees     treeCache // of them
}

// Open opens model and device; Close lets go of both.
func (f *ModelOptions) Open(ctx context.Context, c *ComputeOptions) (*Model, error) {
	src, fetched, err := f.Hub.Source(ctx, f.Path, !f.Source.Has(FromHub))
	if err != nil {
		return nil, err
	}
	return f.opened(ctx, c, src, fetched)
}

// opened opens the model of files that were found, which it closes where it fails.
func (f *ModelOptions) opened(ctx context.Context, c *ComputeOptions, src weights.Source, fetched *fetched) (*Model, error) {
	ck, err := families.OpenSource(ctx, src)
	if err != nil {
		fetched.Close()
		return nil, ModelError(err)
	}
	m := &Model{Checkpoint: ck, fetched: fetched, trees: f.trees, Name: f.Name, namespace: f.Namespace, load: model.LoadOptions{DType: f.DType, Quant: f.Quant}, kv: f.KV}
	switch {
	case m.Name != "": // by a flag or an invitation
	case fetched != nil:
		m.Name = fetched.Snapshot.Name.Repo
	default:
		m.Name = ck.Name
	}
	if _, err := ck.Class(m.load); err != nil {
		m.closeFiles()
		return nil, Usage(err)
	}
	for _, r := range ck.Repacked() {
		slog.Info("weights of this type are held in another format, with the same values",
			"type", r.Type, "as", r.As, "mib_of_model_in_file", r.Stored>>20, "mib_in_memory", r.Held>>20)
	}
	if m.Device, err = c.Open(); err != nil {
		m.closeFiles()
		return nil, err
	}
	if err := m.describe(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// closeFiles unmaps the files of a model that has no device yet.
func (m *Model) closeFiles() error { return errors.Join(m.Checkpoint.Close(), m.fetched.Close()) }

// ModelError marks an error of opening a model as wrong use, and says what would be right
// where nothing is there.
func ModelError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: give a folder with config.json, a .gguf file or a model of the hub, such as owner/name", err)
	}
	return Usage(err)
}

// Close ends the device and unmaps the files.
func (m *Model) Close() error {
	errs := []error{m.Device.Close(), m.closeFiles()}
	for _, a := range m.adapters {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}

// Tokenizer opens the model's tokenizer; nil if the model brings none.
func (m *Model) Tokenizer() (*tokenizer.Tokenizer, error) {
	if m.Checkpoint.Source == weights.GGUF {
		meta := m.Checkpoint.Metadata()
		if !meta.Has("tokenizer.ggml.tokens") {
			return nil, nil
		}
		return GGUFTokenizer(m.Checkpoint.Path, meta)
	}
	if _, err := os.Stat(filepath.Join(m.Checkpoint.TokenizerDir, "tokenizer.json")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	t, err := tokenizer.OpenFolder(m.Checkpoint.TokenizerDir)
	return t, Usage(err)
}

// engine loads the head and makes a client of the swarm that dir and dial reach. tok may
// be nil.
func (m *Model) engine(ctx context.Context, tok *tokenizer.Tokenizer, cfg client.Config) (*client.Engine, error) {
	if err := m.fetch(ctx, 0, 0, true); err != nil {
		return nil, err
	}
	if m.Manifest.Pinned() {
		if err := m.Checkpoint.CheckHead(m.Manifest.Head); err != nil {
			return nil, Usage(err)
		}
	}
	var err error
	if m.Head, err = m.Checkpoint.LoadHead(m.Device, m.load); err != nil {
		return nil, err
	}
	return client.New(m.asks(tok, cfg))
}

// asks completes what an engine is told by what the model says. The head is loaded.
func (m *Model) asks(tok *tokenizer.Tokenizer, cfg client.Config) client.Config {
	cfg.Manifest, cfg.Head, cfg.Tokenizer = m.Manifest, m.Head, tok
	cfg.Verify = p2p.Verify
	cfg.Vocab, cfg.MaxLength = m.Head.Vocab(), m.Checkpoint.Config.LongestSession()
	return cfg
}
