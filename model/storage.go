package model

import (
	"fmt"
	"slices"
	"strings"

	"whorl/model/weights"
	"whorl/tensor"
	"whorl/tensor/quant"
)

// storage is how a file keeps a tensor.
type storage struct {
	// name is the type in the words of LoadOptions, such as "q3_k".
	name string
	// dtype is the same for types that devices know. Of others it is what the tensor is
	// repacked to when it is read, which stands for the same values to the bit.
	dtype tensor.DType
}

func plainStorage(d tensor.DType) storage { return storage{d.String(), d} }

// storageOf tells how a tensor is kept; false if it cannot be loaded.
func storageOf(info weights.Info) (storage, bool) {
	if info.Loadable {
		return plainStorage(info.DType), true
	}
	if r, ok := quant.RepackingOf(info.Type); ok {
		return storage{strings.ToLower(info.Type), r.To}, true
	}
	return storage{}, false
}

// quantised tells block-quantised types, among them those that are held as floats.
func (s storage) quantised() bool { return s.dtype.Quantised() || s.repacked() }

func (s storage) repacked() bool { return s.name != s.dtype.String() }

// repack makes whole rows of a tensor into the type they are held in: a copy, unless that is
// the file's own.
func repack(info weights.Info, data []byte) (tensor.DType, []byte, error) {
	if info.Loadable {
		return info.DType, data, nil
	}
	r, ok := quant.RepackingOf(info.Type)
	if !ok || len(data)%r.Bytes != 0 {
		return 0, nil, fmt.Errorf("tensor %s has the unsupported type %s", info.Name, info.Type)
	}
	size, err := quant.RowBytes(r.To, len(data)/r.Bytes*r.Group)
	if err != nil {
		return 0, nil, fmt.Errorf("tensor %s of type %s: %w", info.Name, info.Type, err)
	}
	out := make([]byte, size)
	r.Repack(out, data)
	return r.To, out, nil
}

// Repacked is what the tensors of a type that no device computes with become when they are
// loaded: the same values in another format, which takes more memory.
type Repacked struct {
	Type   string // as the file calls it
	As     tensor.DType
	Stored int64 // bytes of all of them in the file
	Held   int64 // and in memory
}

// Repacked lists the types of a checkpoint that are loaded as others.
func (c *Checkpoint) Repacked() []Repacked {
	var list []Repacked
	for _, name := range c.file.Names() {
		info, _ := c.file.Info(name)
		s, ok := storageOf(info)
		if !ok || !s.repacked() {
			continue
		}
		i := slices.IndexFunc(list, func(r Repacked) bool { return r.Type == info.Type })
		if i < 0 {
			i = len(list)
			list = append(list, Repacked{Type: info.Type, As: s.dtype})
		}
		rows := 1
		for _, d := range info.Shape[:len(info.Shape)-1] {
			rows *= d
		}
		list[i].Stored += info.Bytes
		list[i].Held += matrixBytes(s.dtype, rows, info.Shape[len(info.Shape)-1])
	}
	return list
}
