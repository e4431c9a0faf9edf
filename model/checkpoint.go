package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"whorl/content"
	"whorl/model/nn"
	"whorl/model/weights"
	"whorl/tensor"
)

// Checkpoint is an open model: its configuration, and its tensors on disk. Every tensor
// was checked for presence, type and shape when it was opened, and none was read. It is
// safe for concurrent use, except that Close must come last.
type Checkpoint struct {
	// Name is what the path calls the model: the folder, or the file without ".gguf" and
	// the number of a part.
	Name   string
	Path   string // of the folder of safetensors or of a .gguf file
	Config Config
	// Source is the format of the weights.
	Source weights.Format
	// TokenizerDir is the folder that may hold tokenizer.json; "" for GGUF, where
	// Metadata has the vocabulary.
	TokenizerDir string

	file   *weights.File
	names  Names
	canon  Names // the names that digests use
	prefix Prefix
	stored storage                 // of the blocks' matrices, the one with most bytes
	types  map[string]tensor.DType // of an Outline of a file: of every tensor
	eos    []int32

	mu    sync.Mutex // guards all below
	ropes []ropeTable
	roots map[int]content.Hash // of blocks that were hashed, and of the head
}

// Metadata gives the key-value pairs of a GGUF file, for its vocabulary; it is empty for
// safetensors. It stays valid after Close.
func (c *Checkpoint) Metadata() *weights.Metadata { return c.file.Metadata() }

// EOS lists the ids that end an answer, as the model's files say; it may be empty.
func (c *Checkpoint) EOS() []int32 { return slices.Clone(c.eos) }

// BytesRead is the sum of the sizes of all tensors read so far.
func (c *Checkpoint) BytesRead() int64 { return c.file.Touched() }

// Close unmaps the files. Loaded blocks and heads live on.
func (c *Checkpoint) Close() error { return c.file.Close() }

// Names are what transformers calls the tensors of the family, whatever format the file has.
func (c *Checkpoint) Names() Names { return c.canon }

// BlockParams is the number of parameters of block i.
func (c *Checkpoint) BlockParams(i int) int64 { return c.Config.BlockParams(i) }

// BlockBytes is the size of block i loaded with these options, in the format's own layout;
// a device may hold it a little larger.
func (c *Checkpoint) BlockBytes(i int, o LoadOptions) (int64, error) {
	if err := c.inRange(i); err != nil {
		return 0, err
	}
	s, err := c.resolve(o)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, need := range c.Config.Block(i).Needs() {
		if need.Vector() {
			sum += 4 * int64(need.Cols)
			continue
		}
		sum += matrixBytes(s.matrix(c.storedAs(c.source(i, need).name), need.Param), need.Rows, need.Cols)
	}
	return sum, nil
}

// HeadBytes is the size of embeddings, final norm and LM head loaded with these options; a
// tied table counts once.
func (c *Checkpoint) HeadBytes(o LoadOptions) (int64, error) {
	s, err := c.resolve(o)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, h := range c.headTensors() {
		if h.need.Vector() {
			sum += 4 * int64(h.need.Cols)
		} else {
			sum += matrixBytes(s.matrix(c.storedAs(h.src.name), noParam), h.need.Rows, h.need.Cols)
		}
	}
	return sum, nil
}

func (c *Checkpoint) inRange(block int) error {
	if block < 0 || block >= c.Config.Layers {
		return fmt.Errorf("%s has blocks 0 to %d, not %d", c.Name, c.Config.Layers-1, block)
	}
	return nil
}

// headTensor is a tensor outside of blocks.
type headTensor struct {
	src       source
	need      nn.Need
	embedNorm bool
}

// headTensors lists the embedding table, the norm of embeddings, the final norm and, if it
// is no table of embeddings, the LM head: those that there are.
func (c *Checkpoint) headTensors() []headTensor {
	var list []headTensor
	add := func(name string, need nn.Need, embedNorm bool) {
		if need.Param = noParam; need.Bias {
			name += ".bias"
		} else {
			name += ".weight"
		}
		shape := []int{need.Rows, need.Cols}
		if need.Vector() {
			shape = shape[1:]
		}
		list = append(list, headTensor{source{name: name, shape: shape}, need, embedNorm})
	}
	norm := func(name string, embedNorm bool) {
		add(c.prefix.Body+name, nn.Need{Cols: c.Config.Hidden}, embedNorm)
		if c.Config.NormBias {
			add(c.prefix.Body+name, nn.Need{Bias: true, Cols: c.Config.Hidden}, embedNorm)
		}
	}
	table := nn.Need{Rows: c.Config.Vocab, Cols: c.Config.Hidden}
	add(c.prefix.Body+c.names.Embed, table, false)
	if c.Config.EmbedNorm {
		norm(c.names.EmbedNorm, true)
	}
	norm(c.names.Norm, false)
	if !c.Config.Tied {
		add(c.prefix.Head+c.names.Head, table, false)
	}
	return list
}

// findPrefix settles which of the known prefixes the file uses.
func (c *Checkpoint) findPrefix() error {
	first := c.Config.Block(0).Needs()[0]
	for _, p := range c.names.Prefixes {
		c.prefix = p
		if _, ok := c.file.Info(c.source(0, first).name); ok {
			return nil
		}
	}
	c.prefix = c.names.Prefixes[0]
	return fmt.Errorf("%s has no tensor %q, under none of the known prefixes", c.Path, c.source(0, first).name)
}

// check compares the tensors of the file with what the configuration needs.
func (c *Checkpoint) check() error {
	if err := c.findPrefix(); err != nil {
		return err
	}
	c.findExperts()
	expected := map[string]bool{}
	held := map[storage]int64{}
	for i := range c.Config.Layers {
		for _, need := range c.Config.Block(i).Needs() {
			src := c.source(i, need)
			info, err := c.checkTensor(src, need)
			if err != nil {
				return err
			}
			if !need.Vector() && !expected[src.name] {
				s, _ := storageOf(info)
				held[s] += info.Bytes
			}
			expected[src.name] = true
		}
	}
	c.stored = dominant(held)
	for _, h := range c.headTensors() {
		if _, err := c.checkTensor(h.src, h.need); err != nil {
			return err
		}
	}
	return c.checkSurplus(expected)
}

// checkTensor checks the tensor that a need's values lie in.
func (c *Checkpoint) checkTensor(src source, need nn.Need) (weights.Info, error) {
	info, ok := c.file.Info(src.name)
	if !ok {
		return info, fmt.Errorf("%s: tensor %q is missing", c.Path, src.name)
	}
	if !slices.Equal(info.Shape, src.shape) {
		return info, fmt.Errorf("%s: tensor %q has the shape %v, but the configuration needs %v", c.Path, src.name, info.Shape, src.shape)
	}
	if s, ok := storageOf(info); !ok || need.Vector() && s.quantised() {
		return info, fmt.Errorf("%s: tensor %q has the type %s, which is not supported: supported are F32, F16, BF16 and for matrices of GGUF files Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS",
			c.Path, src.name, info.Type)
	}
	return info, nil
}

// checkSurplus refuses tensors inside blocks, and of the modules of the head, that the graph
// has no place for: a norm or a bias that nobody adds would be a silent error. Others may be
// there: a model that sees pictures holds more than its text part.
func (c *Checkpoint) checkSurplus(expected map[string]bool) error {
	lm := c.prefix.Head + c.names.Head + "."
	expected[lm+"weight"] = true // beside a tied table: see checkTie
	owned := []string{c.names.blocks(c.prefix), lm}
	for _, h := range c.headTensors() {
		expected[h.src.name] = true
		owned = append(owned, h.src.name[:strings.LastIndex(h.src.name, ".")+1])
	}
	surplus := func(name string) bool {
		within := func(module string) bool { return strings.HasPrefix(name, module) }
		return slices.ContainsFunc(owned, within) && !expected[name] && !c.names.ignored(name)
	}
	for _, name := range c.file.Names() {
		if surplus(name) {
			return fmt.Errorf("%s: tensor %q has no place in a %s model of %d blocks with this configuration",
				c.Path, name, c.Config.Family, c.Config.Layers)
		}
	}
	return nil
}

// dominant is the type that holds most bytes; of equals the first in the order of types.
func dominant(held map[storage]int64) storage {
	best, most := plainStorage(tensor.F32), int64(-1)
	for s, n := range held {
		before := cmp.Or(cmp.Compare(s.dtype, best.dtype), cmp.Compare(s.name, best.name)) < 0
		if n > most || n == most && before {
			best, most = s, n
		}
	}
	return best
}

// rope gives the device's rotation table, made once per device; nil for none.
func (c *Checkpoint) rope(dev tensor.Device, r nn.Rope) (tensor.Rope, error) {
	if r.Kind == nn.RopeNone {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, have := range c.ropes {
		if have.dev == dev && have.spec.Equal(r) {
			return have.table, nil
		}
	}
	table, err := dev.NewRope(r.Spec(c.Config.HeadDim))
	if err != nil {
		return nil, fmt.Errorf("rotary table of %s: %w", c.Name, err)
	}
	if len(c.ropes) == maxRopes {
		c.ropes = c.ropes[1:]
	}
	c.ropes = append(c.ropes, ropeTable{dev, r, table})
	return table, nil
}

type ropeTable struct {
	dev   tensor.Device
	spec  nn.Rope
	table tensor.Rope
}

// maxRopes is how many tables are kept for reuse: those of the blocks, and of sessions of
// the latest lengths.
const maxRopes = 32

// SessionRope is the rotation of a session of at most length positions on a device, for
// tensor.KVView.Rope; nil for models whose rotation does not depend on it.
func (c *Checkpoint) SessionRope(dev tensor.Device, length int) (tensor.Rope, error) {
	for _, s := range c.Config.specs() {
		if s.Rope.LengthDependent() {
			return c.rope(dev, s.Rope.At(length))
		}
	}
	return nil, nil
}

// Stamps tells the files of weights apart from what they may become.
func (c *Checkpoint) Stamps() []weights.Stamp { return c.file.Stamps() }
