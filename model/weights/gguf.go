package weights

import (
	"context"
	"fmt"
	"math"
)

const (
	ggufMagic        = 0x46554747 // "GGUF", little-endian
	defaultAlignment = 32
)

// OpenGGUF opens a GGUF file of version 2 or 3. One that is split in files is opened whole
// by the path of any of its parts; see [FindGGUF] for folders.
func OpenGGUF(path string) (*File, error) {
	return Source{Path: path}.OpenGGUF(context.Background())
}

// OpenGGUF opens what lies at a source, as the function of that name does.
func (s Source) OpenGGUF(ctx context.Context) (*File, error) {
	path := s.Path
	parts, err := partPaths(path)
	if err != nil {
		return nil, err
	}
	f := &File{format: GGUF, path: path, entries: map[string]entry{}}
	for _, name := range parts {
		m, err := mapFile(name, s.Filler)
		if err == nil {
			f.parts = append(f.parts, m)
			if err = f.addGGUF(ctx, len(f.parts)-1, len(parts)); err != nil {
				err = fmt.Errorf("read %s: %w", name, err)
			}
		}
		if err != nil {
			f.Close()
			return nil, err
		}
	}
	err = f.checkTotal()
	if err == nil {
		err = f.finish()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return f, nil
}

// addGGUF reads the header of part i of n: magic, version, counts, metadata pairs, tensor
// descriptions.
func (f *File) addGGUF(ctx context.Context, i, n int) error {
	data := f.parts[i].data
	c := &cursor{data: data, fill: f.parts[i].header(ctx)}
	if m := c.u32(); c.err == nil && m != ggufMagic {
		return fmt.Errorf("not a GGUF file: it starts with %q", data[:4])
	}
	version := c.u32()
	if c.err == nil && (version < 2 || version > 3) {
		if version&0xffff == 0 {
			return fmt.Errorf("a big-endian GGUF file: convert it to little-endian")
		}
		return fmt.Errorf("GGUF version %d: 2 and 3 are supported", version)
	}
	tensors, keys := c.u64(), c.u64()
	if c.err != nil {
		return c.fail("the header")
	}
	if keys > maxKeys {
		return fmt.Errorf("the header claims %d metadata keys, the limit is %d", keys, maxKeys)
	}
	if tensors > maxTensors {
		return fmt.Errorf("the header claims %d tensors, the limit is %d", tensors, maxTensors)
	}
	var meta Metadata
	if err := meta.read(c, int(keys)); err != nil {
		return err
	}
	if i == 0 {
		f.meta = meta
	}
	if err := f.checkSplit(&meta, i, n); err != nil {
		return err
	}
	align, err := meta.alignment()
	if err != nil {
		return err
	}
	return f.readGGUFTensors(c, i, int(tensors), align)
}

// readGGUFTensors reads the descriptions of a part; the data begins after them, aligned.
func (f *File) readGGUFTensors(c *cursor, part, count int, align int64) error {
	var entries []entry // grows as descriptions are really there, not as the count claims
	for i := range count {
		e, err := readGGUFEntry(c)
		if err != nil {
			if c.err != nil {
				return c.fail(fmt.Sprintf("tensor %d of %d", i, count))
			}
			return err
		}
		if e.offset%align != 0 {
			return fmt.Errorf("tensor %q starts at offset %d, not a multiple of the alignment %d", e.info.Name, e.offset, align)
		}
		entries = append(entries, e)
	}
	start := (int64(c.pos) + align - 1) / align * align
	for _, e := range entries {
		e.part = part
		e.offset += start
		if err := f.add(e); err != nil {
			return err
		}
	}
	return nil
}

// readGGUFEntry reads one description; the offset is relative to the data.
func readGGUFEntry(c *cursor) (entry, error) {
	name := c.str(maxName)
	dims := c.u32()
	if c.err != nil {
		return entry{}, c.err
	}
	if name == "" {
		return entry{}, fmt.Errorf("a tensor has no name")
	}
	if dims == 0 || dims > maxGGUFDims {
		return entry{}, fmt.Errorf("tensor %q has %d dimensions", name, dims)
	}
	shape := make([]int, dims)
	for i := range shape { // the file lists the innermost first
		v := c.u64()
		if c.err != nil {
			return entry{}, c.err
		}
		if v == 0 || v > math.MaxInt64 || uint64(int(v)) != v {
			return entry{}, fmt.Errorf("tensor %q has the dimension %d", name, v)
		}
		shape[int(dims)-1-i] = int(v)
	}
	kind, offset := c.u32(), c.u64()
	if c.err != nil {
		return entry{}, c.err
	}
	lay, ok := ggufTypes[kind]
	if !ok {
		return entry{}, fmt.Errorf("tensor %q has the unknown type %d", name, kind)
	}
	size, err := lay.size(shape)
	if err != nil {
		return entry{}, fmt.Errorf("tensor %q: %w", name, err)
	}
	if offset > 1<<62 || size > 1<<62-int64(offset) { // so that adding the start cannot overflow
		return entry{}, fmt.Errorf("tensor %q of %d bytes starts at offset %d", name, size, offset)
	}
	return entry{
		info: Info{
			Name: name, Type: lay.name, DType: lay.dtype, Loadable: lay.ok, Shape: shape, Bytes: size,
		},
		offset: int64(offset),
	}, nil
}
