package model

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"whorl/model/weights"
	"whorl/tensor"
)

// Checkpoint is an open model: its configuration, and its tensors on disk. Every tensor
// was checked for presence, type and shape when it was opened, and none was read. It is
// safe for concurrent use, except that Close must come last.
type Checkpoint struct {
	// Name is what the path calls the model: the folder, or the file without ".gguf".
	Name   string
	Path   string
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
	stored tensor.DType // of the blocks' matrices, the one with most bytes
	eos    []int32

	mu    sync.Mutex // guards ropes
	ropes map[tensor.Device]tensor.Rope
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

// Names are what the library calls the tensors of the family, whatever format the file has.
func (c *Checkpoint) Names() Names { return c.canon }

// BlockParams is the number of parameters of one block.
func (c *Checkpoint) BlockParams() int64 { return c.Config.BlockParams() }

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
	for _, need := range c.Config.Spec().Needs() {
		if need.Vector() {
			sum += 4 * int64(need.Cols)
			continue
		}
		info, _ := c.file.Info(c.names.tensorName(c.prefix, i, need))
		sum += matrixBytes(s.matrix(info.DType, true), need.Rows, need.Cols)
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
	sum := 4 * int64(c.Config.Hidden)
	for _, name := range c.headMatrices() {
		info, _ := c.file.Info(name)
		sum += matrixBytes(s.matrix(info.DType, false), c.Config.Vocab, c.Config.Hidden)
	}
	return sum, nil
}

func (c *Checkpoint) inRange(block int) error {
	if block < 0 || block >= c.Config.Layers {
		return fmt.Errorf("%s has blocks 0 to %d, not %d", c.Name, c.Config.Layers-1, block)
	}
	return nil
}

// headMatrices names the embedding table and, if it is another, the LM head.
func (c *Checkpoint) headMatrices() []string {
	list := []string{c.prefix.Body + c.names.Embed + ".weight"}
	if !c.Config.Tied {
		list = append(list, c.prefix.Head+c.names.Head+".weight")
	}
	return list
}

func (c *Checkpoint) normName() string { return c.prefix.Body + c.names.Norm + ".weight" }

// findPrefix settles which of the known prefixes the file uses.
func (c *Checkpoint) findPrefix() error {
	first := c.Config.Spec().Needs()[0]
	for _, p := range c.names.Prefixes {
		if _, ok := c.file.Info(c.names.tensorName(p, 0, first)); ok {
			c.prefix = p
			return nil
		}
	}
	return fmt.Errorf("%s has no tensor %q, under none of the known prefixes", c.Path,
		c.names.tensorName(c.names.Prefixes[0], 0, first))
}

// check compares the tensors of the file with what the configuration needs.
func (c *Checkpoint) check() error {
	if err := c.findPrefix(); err != nil {
		return err
	}
	expected := map[string]bool{}
	held := map[tensor.DType]int64{}
	for i := range c.Config.Layers {
		for _, need := range c.Config.Spec().Needs() {
			name := c.names.tensorName(c.prefix, i, need)
			expected[name] = true
			info, err := c.checkTensor(name, need.Rows, need.Cols)
			if err != nil {
				return err
			}
			if !need.Vector() {
				held[info.DType] += info.Bytes
			}
		}
	}
	c.stored = dominant(held)
	if _, err := c.checkTensor(c.normName(), 0, c.Config.Hidden); err != nil {
		return err
	}
	for _, name := range c.headMatrices() {
		if _, err := c.checkTensor(name, c.Config.Vocab, c.Config.Hidden); err != nil {
			return err
		}
	}
	return c.checkSurplus(expected)
}

// checkTensor checks one tensor; rows is 0 for a vector.
func (c *Checkpoint) checkTensor(name string, rows, cols int) (weights.Info, error) {
	info, ok := c.file.Info(name)
	if !ok {
		return info, fmt.Errorf("%s: tensor %q is missing", c.Path, name)
	}
	want := []int{rows, cols}
	if rows == 0 {
		want = want[1:]
	}
	if !slices.Equal(info.Shape, want) {
		return info, fmt.Errorf("%s: tensor %q has the shape %v, but the configuration needs %v", c.Path, name, info.Shape, want)
	}
	if !info.Loadable || (rows == 0 && info.DType.Quantised()) {
		return info, fmt.Errorf("%s: tensor %q has the type %s, which is not supported: supported are F32, F16, BF16 and for matrices of GGUF files Q8_0, Q4_0, Q4_1, Q4_K, Q6_K",
			c.Path, name, info.Type)
	}
	return info, nil
}

// checkSurplus refuses tensors inside blocks that the graph has no place for: a norm or a
// bias that nobody adds would be a silent error.
func (c *Checkpoint) checkSurplus(expected map[string]bool) error {
	blocks := c.names.blocks(c.prefix)
	for _, name := range c.file.Names() {
		if strings.HasPrefix(name, blocks) && !expected[name] && !c.names.ignored(name) {
			return fmt.Errorf("%s: tensor %q has no place in a %s model of %d blocks with this configuration",
				c.Path, name, c.Config.Family, c.Config.Layers)
		}
	}
	return nil
}

// dominant is the type that holds most bytes; of equals the first in the order of types.
func dominant(held map[tensor.DType]int64) tensor.DType {
	best, most := tensor.F32, int64(-1)
	for d, n := range held {
		if n > most || n == most && d < best {
			best, most = d, n
		}
	}
	return best
}

// rope gives the device's rotation table, made once per device.
func (c *Checkpoint) rope(dev tensor.Device) (tensor.Rope, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.ropes[dev]; ok {
		return r, nil
	}
	r, err := dev.NewRope(c.Config.Rope.Spec(c.Config.HeadDim))
	if err != nil {
		return nil, fmt.Errorf("rotary table of %s: %w", c.Name, err)
	}
	c.ropes[dev] = r
	return r, nil
}
