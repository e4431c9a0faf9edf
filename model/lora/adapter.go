package lora

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"whorl/model"
	"whorl/model/weights"
)

// Names that PEFT gives to the files of an adapter.
const (
	configName  = "adapter_config.json"
	weightsName = "adapter_model.safetensors"
	pickleName  = "adapter_model.bin"
)

// tensorPrefix is how PEFT's wrapper spells the base model.
const tensorPrefix = "base_model.model."

// Adapter is an open folder. It is safe for concurrent use, except that Close must come
// last.
type Adapter struct {
	// Name is what users ask for: Open takes what the folder is called.
	Name string
	// Digest is SHA-256, in hex, over everything that alters results: which modules are
	// changed, their matrices as stored, and their scales.
	Digest string

	path    string
	file    *weights.File
	changes [][]change // by block
}

// change is one module of a block that the adapter changes.
type change struct {
	module model.Module
	a, b   string // tensors
	rank   int
	scale  float32
}

// Open opens an adapter and checks it against the model that it is for. It reads all of it
// once, for the digest.
func Open(dir string, ck *model.Checkpoint) (*Adapter, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	a := &Adapter{Name: filepath.Base(abs), path: dir}
	if err := a.open(ck); err != nil {
		a.Close()
		return nil, fmt.Errorf("open adapter: %w", err)
	}
	return a, nil
}

func (a *Adapter) open(ck *model.Checkpoint) error {
	cfg, err := readConfig(filepath.Join(a.path, configName))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s holds no %s: want a folder that the PEFT library saved", a.path, configName)
	}
	if err != nil {
		return err
	}
	file := filepath.Join(a.path, weightsName)
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(a.path, pickleName)); err == nil {
			return fmt.Errorf("%s holds %s, a pickle, which can run code when it is read: save the adapter as %s", a.path, pickleName, weightsName)
		}
		return fmt.Errorf("%s holds no %s", a.path, weightsName)
	}
	if a.file, err = weights.OpenSafetensors(file); err != nil {
		return err
	}
	if err := a.check(cfg, ck); err != nil {
		return fmt.Errorf("%s: %w", a.path, err)
	}
	return a.digest()
}

// check settles which modules are changed, and compares that with the tensors of the file.
func (a *Adapter) check(cfg *config, ck *model.Checkpoint) error {
	names := ck.Names()
	prefix := a.prefix(names)
	if err := refuseHead(cfg, names, prefix); err != nil {
		return err
	}
	found := 0
	for block := range ck.Config.Layers {
		var changes []change
		for _, m := range ck.Modules(block) {
			full := prefix.Body + fmt.Sprintf(names.Block, block) + m.Name
			c, ok, err := a.change(cfg, full, m)
			if err != nil {
				return err
			}
			if ok {
				changes = append(changes, c)
			}
		}
		a.changes = append(a.changes, changes)
		found += len(changes)
	}
	if found == 0 {
		return fmt.Errorf("target_modules names nothing in a block of a %s model", ck.Config.Family)
	}
	return a.checkSurplus(ck, found)
}

// prefix is the one of the family's prefixes that the file uses.
func (a *Adapter) prefix(names model.Names) model.Prefix {
	block, _, _ := strings.Cut(names.Block, "%d")
	for _, p := range names.Prefixes {
		for _, t := range a.file.Names() {
			if strings.HasPrefix(t, tensorPrefix+p.Body+block) {
				return p
			}
		}
	}
	return names.Prefixes[0]
}

// refuseHead names targets outside of blocks.
func refuseHead(cfg *config, names model.Names, prefix model.Prefix) error {
	for _, m := range []string{prefix.Body + names.Embed, prefix.Head + names.Head} {
		if cfg.changes(m, false) {
			return fmt.Errorf("target_modules names %s, which is not supported: clients compute embeddings and LM head, without adapters", m)
		}
	}
	return nil
}

// change describes what is done to a module, by its full name; false if nothing is.
func (a *Adapter) change(cfg *config, full string, m model.Module) (change, bool, error) {
	c := change{
		module: m, rank: cfg.rankOf(full),
		a: tensorPrefix + full + ".lora_A.weight", b: tensorPrefix + full + ".lora_B.weight",
	}
	c.scale = cfg.scale(full, c.rank)
	ia, hasA := a.file.Info(c.a)
	ib, hasB := a.file.Info(c.b)
	if m.Choice {
		if hasA || hasB {
			return c, false, fmt.Errorf("there are tensors for %s, which is not supported: experts and routers are served without adapters", full)
		}
		return c, false, nil // PEFT targets linear modules only: these are parameters
	}
	wanted := cfg.changes(full, true)
	switch {
	case !wanted && !hasA && !hasB:
		return c, false, nil
	case !wanted:
		return c, false, fmt.Errorf("there are tensors for %s, but target_modules does not name it", full)
	case !hasA:
		return c, false, fmt.Errorf("target_modules names %s, but tensor %q is missing", full, c.a)
	case !hasB:
		return c, false, fmt.Errorf("target_modules names %s, but tensor %q is missing", full, c.b)
	}
	if err := fits(ia, c.rank, m.Cols); err != nil {
		return c, false, err
	}
	return c, true, fits(ib, m.Rows, c.rank)
}

func fits(info weights.Info, rows, cols int) error {
	if !slices.Equal(info.Shape, []int{rows, cols}) {
		return fmt.Errorf("tensor %q has the shape %v, but model and configuration need %v", info.Name, info.Shape, []int{rows, cols})
	}
	if !info.Loadable || info.DType.Quantised() {
		return fmt.Errorf("tensor %q has the type %s, which is not supported: supported are F32, F16 and BF16", info.Name, info.Type)
	}
	return nil
}

// unsupported are parts of tensor names, each of a feature that is refused by name.
var unsupported = []struct{ part, what string }{
	{"lora_magnitude_vector", "DoRA is not supported"},
	{"lora_embedding_", "adapted embeddings are not supported"},
	{"lora_A.bias", "biases of adapters are not supported"},
	{"lora_B.bias", "biases of adapters are not supported"},
	{"modules_to_save", "modules saved whole are not supported"},
	// PEFT's modules need not be called as its checkpoints have them.
	{".experts.", "adapters of experts are not supported"},
	{".gate.lora_", "adapters of routers are not supported"},
}

// checkSurplus refuses tensors that have no place.
func (a *Adapter) checkSurplus(ck *model.Checkpoint, found int) error {
	if len(a.file.Names()) == 2*found {
		return nil
	}
	expected := map[string]bool{}
	for _, changes := range a.changes {
		for _, c := range changes {
			expected[c.a], expected[c.b] = true, true
		}
	}
	for _, name := range a.file.Names() {
		if expected[name] {
			continue
		}
		for _, u := range unsupported {
			if strings.Contains(name, u.part) {
				return fmt.Errorf("tensor %q: %s", name, u.what)
			}
		}
		return fmt.Errorf("tensor %q has no place in a %s model of %d blocks with this adapter's configuration",
			name, ck.Config.Family, ck.Config.Layers)
	}
	return nil
}

func (a *Adapter) digest() error {
	sum := sha256.New()
	for block, changes := range a.changes {
		for _, c := range changes {
			writeFramed(sum, fmt.Appendf(nil, "%d %s %08x", block, c.module.Name, math.Float32bits(c.scale)))
			for _, name := range []string{c.a, c.b} {
				t, err := a.file.Tensor(name)
				if err != nil {
					return err
				}
				writeFramed(sum, fmt.Append(nil, t.DType, t.Shape))
				writeFramed(sum, t.Data)
			}
		}
	}
	a.Digest = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// Close unmaps the file. What was loaded lives on.
func (a *Adapter) Close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// writeFramed adds bytes to a hash, behind their length, so that no two lists of parts look
// alike.
func writeFramed(w io.Writer, b []byte) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
	w.Write(n[:]) // a hash never fails
	w.Write(b)
}
