package model

import (
	"fmt"
	"slices"
	"strings"

	"whorl/model/nn"
	"whorl/tensor"
	"whorl/tensor/quant"
)

// LoadOptions say how weights are to be held, in the words of the command line.
type LoadOptions struct {
	// DType is "auto" (or ""), which keeps weights exactly as they are stored, or a
	// float type: weights are then rounded to it. The arithmetic is float32 either way.
	DType string
	// Quant is "none" (or ""), which keeps weights as they are stored, or a format that
	// the matrices of blocks are quantised to at load. Norms, biases, embeddings and
	// the LM head are not quantised.
	Quant string
	// Dequantise takes a file of quantised weights as the floats that they stand for,
	// exactly, embeddings and LM head included: DType (auto then means f32) and Quant
	// apply to those. It is for comparing formats. Nobody serves such weights: they take
	// more memory than the file and know no more.
	Dequantise bool
}

// Class is how the weights of a served model are held; servers of one class, one config
// and one arithmetic give the same bits.
type Class struct {
	DType string // "f32", "bf16" or "f16"; "f32" for files of quantised weights
	// Quant is "none", or the format of the blocks' matrices, such as "q4_1": that of the
	// file, also where another holds the same values (see Repacked).
	Quant string
}

// scheme is a Class resolved for one checkpoint.
type scheme struct {
	class Class
	// float is what float tensors are rounded to; as they are stored if keep.
	float tensor.DType
	keep  bool
	// dequantise: quantised tensors of the file become floats first.
	dequantise bool
	// quant is what blocks' matrices are quantised to, if quantise.
	quant    tensor.DType
	quantise bool
}

// quantisers are the formats that float checkpoints can be quantised to at load, by name.
var quantisers = func() (all []tensor.DType) {
	for _, f := range quant.All() {
		if f.DType.Quantised() && f.Pack != nil {
			all = append(all, f.DType)
		}
	}
	slices.SortFunc(all, func(a, b tensor.DType) int { return strings.Compare(a.String(), b.String()) })
	return all
}()

// Quantisers are the names of the formats that LoadOptions.Quant takes beside "none".
func Quantisers() []string {
	var names []string
	for _, d := range quantisers {
		names = append(names, d.String())
	}
	return names
}

// Quantised tells whether the file holds any quantised weights: its class names what most
// of the blocks' weights are.
func (c *Checkpoint) Quantised() bool {
	return slices.ContainsFunc(c.file.Names(), func(name string) bool {
		info, _ := c.file.Info(name)
		s, _ := storageOf(info)
		return s.quantised()
	})
}

// Class resolves load options for this checkpoint; the error says what it can be had in.
func (c *Checkpoint) Class(o LoadOptions) (Class, error) {
	s, err := c.resolve(o)
	return s.class, err
}

func (c *Checkpoint) resolve(o LoadOptions) (scheme, error) {
	s, err := c.resolveFloats(o)
	if err != nil {
		return scheme{}, err
	}
	switch {
	case o.Quant == "" || o.Quant == "none" || o.Quant == s.class.Quant:
		return s, nil
	case c.stored.quantised() && !s.dequantise:
		return scheme{}, fmt.Errorf("quant %q: the weights of %s are stored as %s and are not quantised again: use none", o.Quant, c.Name, c.stored.name)
	}
	for _, d := range quantisers {
		if o.Quant == d.String() {
			s.quant, s.quantise, s.class.Quant = d, true, d.String()
			return s, c.fits(d)
		}
	}
	return scheme{}, fmt.Errorf("quant %q is not supported: use none or one of %v", o.Quant, quantisers)
}

// fits checks that the rows of every matrix are whole groups of a format.
func (c *Checkpoint) fits(d tensor.DType) error {
	for _, spec := range c.Config.specs() {
		for _, need := range spec.Needs() {
			if need.Vector() || need.Param == nn.Router {
				continue
			}
			if _, err := quant.RowBytes(d, need.Cols); err != nil {
				return fmt.Errorf("quant %s does not fit %s: %s: %w", d, c.Name, c.names.source(spec, need).name, err)
			}
		}
	}
	return nil
}

// resolveFloats settles what float tensors are rounded to.
func (c *Checkpoint) resolveFloats(o LoadOptions) (scheme, error) {
	if !o.Dequantise {
		return c.resolveDType(o.DType)
	}
	d := tensor.F32
	if o.DType != "" && o.DType != "auto" {
		var err error
		if d, err = parseFloat(o.DType); err != nil {
			return scheme{}, err
		}
	}
	return scheme{class: Class{DType: d.String(), Quant: "none"}, float: d, dequantise: true}, nil
}

func parseFloat(name string) (tensor.DType, error) {
	d, err := tensor.ParseDType(name)
	if err != nil || d.Quantised() {
		return 0, fmt.Errorf("dtype %q is not supported: use auto, float32, bfloat16 or float16", name)
	}
	return d, nil
}

func (c *Checkpoint) resolveDType(name string) (scheme, error) {
	auto := scheme{class: Class{DType: c.stored.name, Quant: "none"}, keep: true}
	if c.stored.quantised() {
		auto.class = Class{DType: tensor.F32.String(), Quant: c.stored.name}
	}
	if name == "" || name == "auto" {
		return auto, nil
	}
	d, err := parseFloat(name)
	if err != nil {
		return scheme{}, err
	}
	if c.stored.quantised() {
		if d == tensor.F32 { // what the arithmetic is in any case
			return auto, nil
		}
		return scheme{}, fmt.Errorf("dtype %s: the weights of %s are stored as %s: use auto", d, c.Name, c.stored.name)
	}
	return scheme{class: Class{DType: d.String(), Quant: "none"}, float: d}, nil
}

// matrix is the type that a matrix stored as d is loaded in. Those of blocks are quantised,
// but for the router of experts: a small error there chooses other experts.
func (s scheme) matrix(d tensor.DType, p nn.Param) tensor.DType {
	switch {
	case s.quantise && p != noParam && p != nn.Router:
		return s.quant
	case s.keep || d.Quantised() && !s.dequantise:
		return d
	}
	return s.float
}
