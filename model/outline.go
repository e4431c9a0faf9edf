package model

import (
	"fmt"
	"path/filepath"

	"whorl/tensor"
)

// Outline is what is known of a model without its weights: its configuration and the sizes
// of its parts. It is for planning; nothing can be loaded from it.
type Outline struct{ c *Checkpoint }

// OpenOutline reads the outline of a model of one of the families: of a folder's
// config.json alone, or of the headers of a .gguf file.
func OpenOutline(path string, families []Family) (*Outline, error) {
	path, dir, err := Locate(path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	if !dir {
		c, err := Open(path, families)
		if err != nil {
			return nil, err
		}
		o := c.Outline()
		return o, c.Close()
	}
	where, raw, err := folderConfig(path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	return OutlineOf(filepath.Base(path), where, raw, families)
}

// OutlineOf reads the text of a config.json; where names it in errors.
func OutlineOf(name, where string, config []byte, families []Family) (*Outline, error) {
	fam, cfg, fields, err := configOf(where, config, families)
	if err != nil {
		return nil, err
	}
	stored := tensor.F32 // what transformers assumes where a configuration does not say
	for _, key := range []string{"torch_dtype", "dtype"} {
		if text := fields.StringOr(key, ""); text != "" {
			if stored, err = tensor.ParseDType(text); err != nil {
				return nil, fmt.Errorf("%s: field %q: %w", where, key, err)
			}
		}
	}
	if err := fields.Err(); err != nil {
		return nil, err
	}
	c := &Checkpoint{Name: name, Path: where, Config: cfg, names: fam.SafetensorsNames, canon: fam.SafetensorsNames, stored: plainStorage(stored)}
	c.prefix = c.names.Prefixes[0]
	return &Outline{c}, nil
}

// Outline is that of an open checkpoint; it stays valid after Close.
func (c *Checkpoint) Outline() *Outline {
	types := map[string]tensor.DType{}
	for _, name := range c.file.Names() {
		types[name] = c.storedAs(name)
	}
	return &Outline{&Checkpoint{
		Name: c.Name, Path: c.Path, Config: c.Config, names: c.names, canon: c.canon,
		prefix: c.prefix, stored: c.stored, types: types,
	}}
}

// storedAs is the type of a tensor as it is read.
func (c *Checkpoint) storedAs(name string) tensor.DType {
	if c.file != nil {
		info, _ := c.file.Info(name)
		s, _ := storageOf(info)
		return s.dtype
	}
	if d, ok := c.types[name]; ok {
		return d
	}
	return c.stored.dtype
}

// Name is what the path calls the model.
func (o *Outline) Name() string { return o.c.Name }

// Config is the model's configuration.
func (o *Outline) Config() Config { return o.c.Config }

// Class resolves load options, as Checkpoint.Class does.
func (o *Outline) Class(l LoadOptions) (Class, error) { return o.c.Class(l) }

// BlockBytes is the size of block i, as Checkpoint.BlockBytes gives it.
func (o *Outline) BlockBytes(i int, l LoadOptions) (int64, error) { return o.c.BlockBytes(i, l) }

// HeadBytes is the size of embeddings, norms and LM head.
func (o *Outline) HeadBytes(l LoadOptions) (int64, error) { return o.c.HeadBytes(l) }

// Params is the number of parameters of the whole model; a tied table counts once.
func (o *Outline) Params() int64 {
	var n int64
	for i := range o.c.Config.Layers {
		n += o.c.Config.BlockParams(i)
	}
	for _, h := range o.c.headTensors() {
		n += h.need.Values()
	}
	return n
}
