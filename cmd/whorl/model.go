package main

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

// openModel is a model on disk and the device that will compute it.
type openModel struct {
	ck   *model.Checkpoint
	dev  tensor.Device
	load model.LoadOptions
	kv   tensor.DType // of the KV cache
	name string
	man  swarm.Manifest // what it is served as; without the names of weights before settle
	head *model.Head    // after engine

	adapters []*adapter
	fetched  *fetched  // nil: the files are somebody else's
	files    *bundle   // as they are passed on; nil if nobody made it yet
	trees    treeCache // of them
}

// open opens model and device; Close lets go of both.
func (f *modelFlags) open(ctx context.Context, c *computeFlags) (*openModel, error) {
	src, fetched, err := f.hub.source(ctx, f.path, !f.source.has(fromHub))
	if err != nil {
		return nil, err
	}
	return f.opened(ctx, c, src, fetched)
}

// opened opens the model of files that were found, which it closes where it fails.
func (f *modelFlags) opened(ctx context.Context, c *computeFlags, src weights.Source, fetched *fetched) (*openModel, error) {
	ck, err := families.OpenSource(ctx, src)
	if err != nil {
		fetched.Close()
		return nil, modelError(err)
	}
	m := &openModel{ck: ck, fetched: fetched, trees: f.trees, name: f.name, load: model.LoadOptions{DType: f.dtype, Quant: f.quant}, kv: f.kv}
	switch {
	case m.name != "": // by a flag or an invitation
	case fetched != nil:
		m.name = fetched.snap.Name.Repo
	default:
		m.name = ck.Name
	}
	if _, err := ck.Class(m.load); err != nil {
		m.closeFiles()
		return nil, usage(err)
	}
	for _, r := range ck.Repacked() {
		slog.Info("weights of this type are held in another format, with the same values",
			"type", r.Type, "as", r.As, "mib_of_model_in_file", r.Stored>>20, "mib_in_memory", r.Held>>20)
	}
	if m.dev, err = c.open(); err != nil {
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
func (m *openModel) closeFiles() error { return errors.Join(m.ck.Close(), m.fetched.Close()) }

// modelError marks an error of opening a model as wrong use, and says what would be right
// where nothing is there.
func modelError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: give a folder with config.json, a .gguf file or a model of the hub, such as owner/name", err)
	}
	return usage(err)
}

// Close ends the device and unmaps the files.
func (m *openModel) Close() error {
	errs := []error{m.dev.Close(), m.closeFiles()}
	for _, a := range m.adapters {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}

// tokenizer opens the model's tokenizer; nil if the model brings none.
func (m *openModel) tokenizer() (*tokenizer.Tokenizer, error) {
	if m.ck.Source == weights.GGUF {
		meta := m.ck.Metadata()
		if !meta.Has("tokenizer.ggml.tokens") {
			return nil, nil
		}
		return ggufTokenizer(m.ck.Path, meta)
	}
	if _, err := os.Stat(filepath.Join(m.ck.TokenizerDir, "tokenizer.json")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	t, err := tokenizer.OpenFolder(m.ck.TokenizerDir)
	return t, usage(err)
}

// engine loads the head and makes a client of the swarm that dir and dial reach. tok may
// be nil.
func (m *openModel) engine(ctx context.Context, tok *tokenizer.Tokenizer, cfg client.Config) (*client.Engine, error) {
	if err := m.fetch(ctx, 0, 0, true); err != nil {
		return nil, err
	}
	if m.man.Pinned() {
		if err := m.ck.CheckHead(m.man.Head); err != nil {
			return nil, usage(err)
		}
	}
	var err error
	if m.head, err = m.ck.LoadHead(m.dev, m.load); err != nil {
		return nil, err
	}
	return client.New(m.asks(tok, cfg))
}

// asks completes what an engine is told by what the model says. The head is loaded.
func (m *openModel) asks(tok *tokenizer.Tokenizer, cfg client.Config) client.Config {
	cfg.Manifest, cfg.Head, cfg.Tokenizer = m.man, m.head, tok
	cfg.Verify = p2p.Verify
	cfg.Vocab, cfg.MaxLength = m.head.Vocab(), m.ck.Config.LongestSession()
	return cfg
}
