package weights

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// ggufBuilder writes GGUF headers, honest ones and others.
type ggufBuilder struct{ buf []byte }

func newGGUF(version uint32, tensors, keys uint64) *ggufBuilder {
	b := &ggufBuilder{buf: []byte("GGUF")}
	return b.u32(version).u64(tensors).u64(keys)
}

func (b *ggufBuilder) u32(v uint32) *ggufBuilder {
	b.buf = binary.LittleEndian.AppendUint32(b.buf, v)
	return b
}

func (b *ggufBuilder) u64(v uint64) *ggufBuilder {
	b.buf = binary.LittleEndian.AppendUint64(b.buf, v)
	return b
}

func (b *ggufBuilder) bytes(v ...byte) *ggufBuilder {
	b.buf = append(b.buf, v...)
	return b
}

func (b *ggufBuilder) str(s string) *ggufBuilder {
	b.u64(uint64(len(s)))
	b.buf = append(b.buf, s...)
	return b
}

func (b *ggufBuilder) key(name string, kind uint32) *ggufBuilder { return b.str(name).u32(kind) }

func (b *ggufBuilder) tensor(name string, kind uint32, offset uint64, dims ...uint64) *ggufBuilder {
	b.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		b.u64(d)
	}
	return b.u32(kind).u64(offset)
}

// data pads to the alignment and adds n bytes 0, 1, 2, ...
func (b *ggufBuilder) data(align, n int) []byte {
	for len(b.buf)%align != 0 {
		b.buf = append(b.buf, 0xee)
	}
	for i := range n {
		b.buf = append(b.buf, byte(i))
	}
	return b.buf
}

// member is one tensor of a safetensors header.
type member struct {
	name  string
	dtype string
	shape []int
	from  int
	to    int
}

func safetensorsBytes(t testing.TB, dataLen int, members ...member) []byte {
	t.Helper()
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	for _, m := range members {
		header[m.name] = map[string]any{"dtype": m.dtype, "shape": m.shape, "data_offsets": []int{m.from, m.to}}
	}
	raw, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	return rawSafetensors(string(raw), dataLen)
}

func rawSafetensors(header string, dataLen int) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	out = append(out, header...)
	for i := range dataLen {
		out = append(out, byte(i))
	}
	return out
}

func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// touch reads every byte of every tensor, so that a bad bound faults in the test.
func touch(t testing.TB, f *File) {
	t.Helper()
	var sum byte
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(x.Data)) != x.Bytes {
			t.Fatalf("%s: %d bytes, Info says %d", name, len(x.Data), x.Bytes)
		}
		for _, b := range x.Data {
			sum ^= b
		}
		if x.Loadable && len(x.Shape) <= 2 && len(x.Shape) > 0 {
			if _, err := x.Matrix(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = sum
}
