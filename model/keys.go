package model

import (
	"fmt"
	"slices"
	"strings"

	"whorl/model/weights"
	"whorl/tensor"
)

// Keys reads the metadata of a GGUF file that belongs to its architecture (names are given
// without the prefix, such as "block_count") and remembers what was asked for. The first
// error sticks; reads after it give zero values.
type Keys struct {
	arch string
	file *weights.File
	meta *weights.Metadata
	used map[string]bool
	err  error
}

func newKeys(arch string, file *weights.File) *Keys {
	return &Keys{arch: arch, file: file, meta: file.Metadata(), used: map[string]bool{}}
}

// Err is the first error.
func (k *Keys) Err() error { return k.err }

// Fail records an error about a key.
func (k *Keys) Fail(name, format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf("metadata key %q "+format, append([]any{k.full(name)}, args...)...)
	}
}

func (k *Keys) full(name string) string { return k.arch + "." + name }

// Has tells whether a key is there.
func (k *Keys) Has(name string) bool { return k.meta.Has(k.full(name)) }

// Int reads a required whole number. A list of equal numbers, one per block, counts as
// that number.
func (k *Keys) Int(name string) int {
	k.used[name] = true
	key := k.full(name)
	if !k.meta.Has(key) {
		k.Fail(name, "is missing")
		return 0
	}
	n, ok := k.meta.Int(key)
	if list, isList := k.meta.Ints(key); isList && len(list) > 0 {
		n, ok = list[0], true
		for _, v := range list {
			if v != n {
				k.Fail(name, "differs between blocks, which is not supported")
				return 0
			}
		}
	}
	if !ok || n != int64(int32(n)) {
		k.Fail(name, "is not a whole number of 32 bits")
		return 0
	}
	return int(n)
}

// IntOr reads a whole number, or gives def if the key is absent.
func (k *Keys) IntOr(name string, def int) int {
	if !k.Has(name) {
		return def
	}
	return k.Int(name)
}

// FloatOr reads a floating-point number.
func (k *Keys) FloatOr(name string, def float64) float64 {
	k.used[name] = true
	if !k.Has(name) {
		return def
	}
	v, ok := k.meta.Float(k.full(name))
	if !ok {
		k.Fail(name, "is not a floating-point number")
	}
	return v
}

// StringOr reads a string.
func (k *Keys) StringOr(name, def string) string {
	k.used[name] = true
	if !k.Has(name) {
		return def
	}
	v, ok := k.meta.String(k.full(name))
	if !ok {
		k.Fail(name, "is not a string")
	}
	return v
}

// TensorShape gives the shape of a tensor of the file, outermost dimension first; nil if
// there is none.
func (k *Keys) TensorShape(name string) []int {
	info, ok := k.file.Info(name)
	if !ok {
		return nil
	}
	return info.Shape
}

// TensorFloats reads a small float tensor of the file, such as frequency factors; nil if
// there is none.
func (k *Keys) TensorFloats(name string) []float32 {
	const limit = 1 << 16
	info, ok := k.file.Info(name)
	if !ok || k.err != nil {
		return nil
	}
	if info.Bytes > limit || !info.Loadable || info.DType.Quantised() {
		k.err = fmt.Errorf("tensor %q of type %s and shape %v: want a short list of floats", name, info.Type, info.Shape)
		return nil
	}
	t, err := k.file.Tensor(name)
	if err != nil {
		k.err = err
		return nil
	}
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return floats(tensor.Matrix{DType: t.DType, Rows: 1, Cols: n, Data: t.Data})
}

// Skip marks keys as understood that alter no result.
func (k *Keys) Skip(names ...string) {
	for _, name := range names {
		k.used[name] = true
	}
}

// Zero refuses keys that are there and not 0: for what a family does not have.
func (k *Keys) Zero(names ...string) {
	for _, name := range names {
		if n := k.IntOr(name, 0); n != 0 {
			k.Fail(name, "is %d, which is not supported in a %s model", n, k.arch)
		}
	}
}

// NoExperts refuses a mixture of experts, and NoWindow a window of attention.
func (k *Keys) NoExperts() { k.Zero("expert_count", "expert_used_count") }
func (k *Keys) NoWindow()  { k.Zero("attention.sliding_window") }

// Rest refuses every key of the architecture that was neither read nor skipped. Keys of
// other groups (general, tokenizer, quantize) describe no maths.
func (k *Keys) Rest() {
	for _, key := range k.meta.Keys() { // sorted, so the first one is always the same
		name, mine := strings.CutPrefix(key, k.arch+".")
		if mine && !k.used[name] {
			k.Fail(name, "is not known to the %s family, and it may alter results", k.arch)
			return
		}
	}
}

// eosKeys are where a GGUF file keeps the ids that end an answer.
var eosKeys = []string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}

func ggufEOS(meta *weights.Metadata) []int32 {
	var ids []int32
	for _, key := range eosKeys {
		if n, ok := meta.Int(key); ok && n >= 0 && n < maxVocab && !slices.Contains(ids, int32(n)) {
			ids = append(ids, int32(n))
		}
	}
	return ids
}
