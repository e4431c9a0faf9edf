package train

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Tensor is an array of float32 in a safetensors file.
type Tensor struct {
	Shape  []int
	Values []float32
}

// tensorHead is what the head of a file says of a tensor.
type tensorHead struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// EncodeTensors writes a safetensors file: tensors by name, and texts beside them.
func EncodeTensors(tensors map[string]Tensor, texts map[string]string) []byte {
	head := map[string]any{}
	if len(texts) > 0 {
		head["__metadata__"] = texts
	}
	at := 0
	names := slices.Sorted(maps.Keys(tensors))
	for _, n := range names {
		end := at + 4*len(tensors[n].Values)
		head[n] = tensorHead{"F32", tensors[n].Shape, [2]int{at, end}}
		at = end
	}
	text, _ := json.Marshal(head) // of strings and numbers
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	out := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(text)+at), uint64(len(text)))
	out = append(out, text...)
	for _, n := range names {
		for _, v := range tensors[n].Values {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	}
	return out
}

// maxHead bounds the head of a safetensors file of tables, in bytes.
const maxHead = 1 << 20

// ErrTensors marks bytes that are no file of tables.
var ErrTensors = errors.New("not a safetensors file of float32 tables")

// DecodeTensors reads what EncodeTensors wrote, or another program: float32 and bfloat16.
func DecodeTensors(b []byte) (map[string]Tensor, map[string]string, error) {
	if len(b) < 8 {
		return nil, nil, fmt.Errorf("%w: %d bytes", ErrTensors, len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	if n > maxHead || n > uint64(len(b)-8) {
		return nil, nil, fmt.Errorf("%w: a head of %d bytes in a file of %d", ErrTensors, n, len(b))
	}
	var head map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &head); err != nil {
		return nil, nil, fmt.Errorf("%w: its head: %v", ErrTensors, err)
	}
	data, texts, out := b[8+n:], map[string]string{}, map[string]Tensor{}
	for name, raw := range head {
		if name == "__metadata__" {
			if err := json.Unmarshal(raw, &texts); err != nil {
				return nil, nil, fmt.Errorf("%w: its texts: %v", ErrTensors, err)
			}
			continue
		}
		var h tensorHead
		if err := json.Unmarshal(raw, &h); err != nil {
			return nil, nil, fmt.Errorf("%w: tensor %.100q: %v", ErrTensors, name, err)
		}
		width := map[string]int{"F32": 4, "BF16": 2}[h.DType]
		if width == 0 {
			return nil, nil, fmt.Errorf("%w: tensor %.100q has type %.20q, want F32 or BF16", ErrTensors, name, h.DType)
		}
		from, to := h.Offsets[0], h.Offsets[1]
		count := 1
		for _, d := range h.Shape {
			if d < 0 || d > len(data) || count > len(data) {
				count = -1
				break
			}
			count *= d
		}
		if count < 0 || from < 0 || to < from || to > len(data) || to-from != width*count {
			return nil, nil, fmt.Errorf("%w: tensor %.100q of shape %v at bytes %d to %d of %d", ErrTensors, name, h.Shape, from, to, len(data))
		}
		t := Tensor{Shape: h.Shape, Values: make([]float32, count)}
		for i := range t.Values {
			if width == 2 {
				t.Values[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[from+2*i:])) << 16)
			} else {
				t.Values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[from+4*i:]))
			}
			if v := float64(t.Values[i]); math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, nil, fmt.Errorf("%w: tensor %.100q has values that are not finite", ErrTensors, name)
			}
		}
		out[name] = t
	}
	return out, texts, nil
}
