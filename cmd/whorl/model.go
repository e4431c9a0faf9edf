package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"whorl/client"
	"whorl/model"
	"whorl/model/families"
	"whorl/model/lora"
	"whorl/model/tokenizer"
	"whorl/model/weights"
	"whorl/swarm"
	"whorl/swarm/balance"
	"whorl/swarm/dir"
	"whorl/tensor"
)

// openModel is a model on disk and the device that will compute it.
type openModel struct {
	ck   *model.Checkpoint
	dev  tensor.Device
	load model.LoadOptions
	kv   tensor.DType // of the KV cache
	name string
	head *model.Head // after loadHead

	adapters []*lora.Adapter
}

// open opens model and device; Close lets go of both.
func (f *modelFlags) open(c *computeFlags) (*openModel, error) {
	ck, err := families.Open(f.path)
	if err != nil {
		return nil, modelError(err)
	}
	m := &openModel{ck: ck, name: f.name, load: model.LoadOptions{DType: f.dtype, Quant: f.quant}, kv: f.kv}
	if m.name == "" {
		m.name = ck.Name
	}
	if _, err := ck.Class(m.load); err != nil {
		ck.Close()
		return nil, usage(err)
	}
	for _, r := range ck.Repacked() {
		slog.Info("weights of this type are held in another format, with the same values",
			"type", r.Type, "as", r.As, "mib_of_model_in_file", r.Stored>>20, "mib_in_memory", r.Held>>20)
	}
	if m.dev, err = c.open(); err != nil {
		ck.Close()
		return nil, err
	}
	return m, nil
}

// modelError marks an error of opening a model as wrong use, and says what would be right
// where nothing is there.
func modelError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: give a folder with config.json or a .gguf file", err)
	}
	return usage(err)
}

// Close ends the device and unmaps the files.
func (m *openModel) Close() error {
	errs := []error{m.dev.Close(), m.ck.Close()}
	for _, a := range m.adapters {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}

// openAdapters opens the folders of adapters that a flag names, and gives the name of the
// last.
func (m *openModel) openAdapters(flag string, dirs []string) (string, error) {
	if len(dirs) > swarm.MaxAdapters {
		return "", usagef("%s names %d adapters: a server announces at most %d, so start another for the rest", flag, len(dirs), swarm.MaxAdapters)
	}
	name := ""
	for _, dir := range dirs {
		a, err := lora.Open(dir, m.ck)
		if err != nil {
			return "", usagef("%s: %w", flag, err)
		}
		m.adapters = append(m.adapters, a)
		name = a.Name
		for _, b := range m.adapters[:len(m.adapters)-1] {
			if a.Name == b.Name {
				return "", usagef("%s: two adapters are named %s, and users ask by that name: rename one", flag, a.Name)
			}
		}
		if err := (swarm.Adapter{Name: a.Name, Digest: a.Digest}).Validate(); err != nil {
			return "", usagef("%s %s: %w", flag, dir, err)
		}
		slog.Info("adapter", "name", a.Name, "digest", a.Digest[:12])
	}
	return name, nil
}

// manifest is what this node would serve the model as.
func (m *openModel) manifest() (swarm.Manifest, error) {
	class, err := m.ck.Class(m.load)
	if err != nil {
		return swarm.Manifest{}, usage(err)
	}
	man := swarm.Manifest{
		Name: m.name, Blocks: m.ck.Config.Layers, Hidden: m.ck.Config.Hidden,
		Class: swarm.Class{
			ConfigHash: m.ck.Config.Hash(), DType: class.DType, Quant: class.Quant,
			KVDType: m.kv.String(), Arithmetic: m.dev.Info().Arithmetic,
		},
	}
	return man, usage(man.Validate())
}

// adopt takes over the class in which the swarm serves this model already, so that
// volunteers complete each other: choosable says that no flag asks for another one.
func (m *openModel) adopt(ctx context.Context, d *dir.Directory, choosable bool) error {
	own, err := m.manifest()
	if err != nil {
		return err
	}
	d.Meet(ctx, own.Name)
	views := d.Views()
	log := slog.With("model", m.name, "class", own.Class)
	votes := balance.Votes(own, views)
	if !choosable {
		if votes[own.Class] == 0 && len(votes) > 0 {
			log.Warn("the swarm serves this model in another class, and servers of two classes do not complete each other", "swarm", slices.Collect(maps.Keys(votes)))
		}
		return nil
	}
	class, err := balance.Adopt(own, views, func(c swarm.Class) bool {
		_, _, ok := m.inClass(c, own.Class.Arithmetic)
		return ok
	})
	switch {
	case err != nil:
		return usagef("%w: say which with --dtype, --quant and --kv-dtype", err)
	case class != own.Class:
		m.load, m.kv, _ = m.inClass(class, own.Class.Arithmetic)
		log.Info("adopted the class in which the swarm serves this model", "adopted", class)
	case votes[own.Class] == 0 && len(votes) > 0:
		log.Warn("the swarm serves this model in a class that these files or this device cannot give, so this node stands apart from it", "swarm", slices.Collect(maps.Keys(votes)))
	}
	return nil
}

// inClass is how the model must be loaded to be of a class; false if these files or this
// device cannot give it.
func (m *openModel) inClass(c swarm.Class, arithmetic string) (model.LoadOptions, tensor.DType, bool) {
	load := model.LoadOptions{DType: c.DType, Quant: c.Quant}
	class, err := m.ck.Class(load)
	kv, kvErr := parseKVDType(c.KVDType)
	return load, kv, err == nil && kvErr == nil && class.DType == c.DType && class.Quant == c.Quant && c.Arithmetic == arithmetic
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
func (m *openModel) engine(tok *tokenizer.Tokenizer, cfg client.Config) (*client.Engine, error) {
	man, err := m.manifest()
	if err != nil {
		return nil, err
	}
	if m.head, err = m.ck.LoadHead(m.dev, m.load); err != nil {
		return nil, err
	}
	cfg.Manifest, cfg.Head, cfg.Tokenizer = man, m.head, tok
	cfg.Vocab, cfg.MaxLength = m.head.Vocab(), m.ck.Config.LongestSession()
	return client.New(cfg)
}
