package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The value types of GGUF metadata.
const (
	kindU8 = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
	numKinds
)

// kindSizes are the sizes of the fixed-size types; 0 marks the others.
var kindSizes = [numKinds]uint64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

var kindNames = [numKinds]string{
	"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64",
}

// value is one metadata value, still in the file's encoding: arrays of a vocabulary are
// decoded when asked for, and most are never asked for.
type value struct {
	kind  uint32
	elem  uint32 // of an array
	count int    // of an array
	raw   []byte // a copy: metadata outlives File.Close
}

// Metadata holds the key-value pairs of a GGUF file. The zero value is empty. It stays
// valid after [File.Close] and is safe for concurrent use.
type Metadata struct {
	values map[string]value
}

// read parses n pairs.
func (m *Metadata) read(c *cursor, n int) error {
	m.values = map[string]value{}
	for i := range n {
		key := c.str(maxName)
		kind := c.u32()
		if c.err != nil {
			return c.fail(fmt.Sprintf("metadata pair %d of %d", i, n))
		}
		if _, dup := m.values[key]; dup {
			return fmt.Errorf("metadata key %q appears twice", key)
		}
		v, err := readValue(c, kind)
		if err != nil {
			return fmt.Errorf("metadata key %q: %w", key, err)
		}
		m.values[key] = v
	}
	return nil
}

func readValue(c *cursor, kind uint32) (value, error) {
	v := value{kind: kind}
	start := c.pos
	if kind == kindArray {
		v.elem = c.u32()
		n := c.u64()
		if c.err == nil && n > math.MaxInt32 {
			return v, fmt.Errorf("an array of %d elements", n)
		}
		v.count = int(n)
		start = c.pos
		if err := skipElements(c, v.elem, n, maxArrayDepth); err != nil {
			return v, err
		}
	} else if err := skipElements(c, kind, 1, maxArrayDepth); err != nil {
		return v, err
	}
	v.raw = slices.Clone(c.data[start:c.pos])
	return v, nil
}

// skipElements moves past n values of a type, checking that they are there.
func skipElements(c *cursor, kind uint32, n uint64, depth int) error {
	if c.err != nil {
		return c.err
	}
	if kind >= numKinds {
		return fmt.Errorf("unknown value type %d", kind)
	}
	if size := kindSizes[kind]; size > 0 {
		c.take(n * size) // n is at most 1<<31
		return c.err
	}
	if depth == 0 {
		return fmt.Errorf("arrays nested more than %d deep", maxArrayDepth)
	}
	for ; n > 0 && c.err == nil; n-- {
		if kind == kindString {
			c.take(c.u64())
			continue
		}
		elem, count := c.u32(), c.u64()
		if c.err == nil && count > math.MaxInt32 {
			return fmt.Errorf("an array of %d elements", count)
		}
		if err := skipElements(c, elem, count, depth-1); err != nil {
			return err
		}
	}
	return c.err
}

// alignmentKey is that of each part of a split file by itself.
const alignmentKey = "general.alignment"

// alignment of tensor data.
func (m *Metadata) alignment() (int64, error) {
	const key = alignmentKey
	if _, ok := m.values[key]; !ok {
		return defaultAlignment, nil
	}
	n, ok := m.Int(key)
	if !ok || n <= 0 || n > maxAlignment || n&(n-1) != 0 {
		return 0, fmt.Errorf("%s is %s: want a power of two up to %d", key, m.describe(key), maxAlignment)
	}
	return n, nil
}

// Keys lists the keys, sorted.
func (m *Metadata) Keys() []string {
	keys := make([]string, 0, len(m.values))
	for k := range m.values {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Encode gives the pairs whose keys begin with prefix in one canonical form, sorted by key:
// each key and each value behind its length as 8 little-endian bytes, between them the
// value's type, and for arrays the type and the number of elements, 4 bytes each.
func (m *Metadata) Encode(prefix string) []byte {
	var b []byte
	for _, k := range m.Keys() {
		if !strings.HasPrefix(k, prefix) {
			continue
		}
		v := m.values[k]
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(k))), k...)
		for _, n := range []uint32{v.kind, v.elem, uint32(v.count)} {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(v.raw))), v.raw...)
	}
	return b
}

// Has tells whether a key is there, whatever its type.
func (m *Metadata) Has(key string) bool {
	_, ok := m.values[key]
	return ok
}

// String gives a string value; false if the key is missing or of another type.
func (m *Metadata) String(key string) (string, bool) {
	v, ok := m.values[key]
	if !ok || v.kind != kindString {
		return "", false
	}
	return string(v.raw[8:]), true
}

// Int gives an integer value of any width; false if the key is missing, of another type,
// or beyond int64.
func (m *Metadata) Int(key string) (int64, bool) {
	v, ok := m.values[key]
	if !ok {
		return 0, false
	}
	return intAt(v.kind, v.raw)
}

// Float gives a floating-point value.
func (m *Metadata) Float(key string) (float64, bool) {
	v, ok := m.values[key]
	if !ok {
		return 0, false
	}
	return floatAt(v.kind, v.raw)
}

// Bool gives a boolean value.
func (m *Metadata) Bool(key string) (val, ok bool) {
	v, ok := m.values[key]
	if !ok || v.kind != kindBool {
		return false, false
	}
	return v.raw[0] != 0, true
}

// Strings gives an array of strings. All share one allocation.
func (m *Metadata) Strings(key string) ([]string, bool) {
	v, ok := m.array(key)
	if !ok || v.elem != kindString {
		return nil, false
	}
	all := string(v.raw)
	out := make([]string, v.count)
	pos := uint64(0)
	for i := range out {
		n := binary.LittleEndian.Uint64(v.raw[pos:])
		pos += 8
		out[i] = all[pos : pos+n]
		pos += n
	}
	return out, true
}

// Ints gives an array of integers of any width.
func (m *Metadata) Ints(key string) ([]int64, bool) {
	v, ok := m.array(key)
	if !ok {
		return nil, false
	}
	return elements(v, intAt)
}

// Floats gives an array of float32 or float64.
func (m *Metadata) Floats(key string) ([]float64, bool) {
	v, ok := m.array(key)
	if !ok {
		return nil, false
	}
	return elements(v, floatAt)
}

func (m *Metadata) array(key string) (value, bool) {
	v, ok := m.values[key]
	return v, ok && v.kind == kindArray
}

// describe names a value for an error line.
func (m *Metadata) describe(key string) string {
	v, ok := m.values[key]
	if !ok {
		return "missing"
	}
	if n, ok := m.Int(key); ok {
		return fmt.Sprint(n)
	}
	if v.kind == kindU64 {
		return fmt.Sprint(binary.LittleEndian.Uint64(v.raw))
	}
	return "of type " + kindNames[v.kind]
}

func elements[T any](v value, at func(uint32, []byte) (T, bool)) ([]T, bool) {
	size := int(kindSizes[v.elem])
	if size == 0 {
		return nil, false
	}
	out := make([]T, v.count)
	for i := range out {
		x, ok := at(v.elem, v.raw[i*size:])
		if !ok {
			return nil, false
		}
		out[i] = x
	}
	return out, true
}

func intAt(kind uint32, raw []byte) (int64, bool) {
	switch kind {
	case kindU8:
		return int64(raw[0]), true
	case kindI8:
		return int64(int8(raw[0])), true
	case kindU16:
		return int64(binary.LittleEndian.Uint16(raw)), true
	case kindI16:
		return int64(int16(binary.LittleEndian.Uint16(raw))), true
	case kindU32:
		return int64(binary.LittleEndian.Uint32(raw)), true
	case kindI32:
		return int64(int32(binary.LittleEndian.Uint32(raw))), true
	case kindU64:
		n := binary.LittleEndian.Uint64(raw)
		return int64(n), n <= math.MaxInt64
	case kindI64:
		return int64(binary.LittleEndian.Uint64(raw)), true
	}
	return 0, false
}

func floatAt(kind uint32, raw []byte) (float64, bool) {
	switch kind {
	case kindF32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))), true
	case kindF64:
		return math.Float64frombits(binary.LittleEndian.Uint64(raw)), true
	}
	return 0, false
}
