package weights

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"whorl/internal/meter"
)

// everyKind is an honest file with one metadata pair of every type and three tensors.
func everyKind(version uint32) []byte {
	b := newGGUF(version, 3, 15)
	b.key("a.u8", kindU8).bytes(200)
	b.key("a.i8", kindI8).bytes(0xff)
	b.key("a.u16", kindU16).bytes(0, 0x80)
	b.key("a.i16", kindI16).bytes(0xff, 0xff)
	b.key("a.u32", kindU32).u32(1 << 31)
	b.key("a.i32", kindI32).u32(math.MaxUint32)
	b.key("a.f32", kindF32).u32(math.Float32bits(1.5))
	b.key("a.bool", kindBool).bytes(1)
	b.key("a.str", kindString).str("héllo")
	b.key("a.u64", kindU64).u64(1 << 40)
	b.key("a.i64", kindI64).u64(math.MaxUint64)
	b.key("a.f64", kindF64).u64(math.Float64bits(-2.25))
	b.key("a.strs", kindArray).u32(kindString).u64(3).str("x").str("").str("yz")
	b.key("a.ints", kindArray).u32(kindI32).u64(2).u32(7).u32(math.MaxUint32)
	b.key("a.nested", kindArray).u32(kindArray).u64(2).u32(kindF32).u64(1).u32(math.Float32bits(3)).u32(kindU8).u64(0)
	b.tensor("norm", 0, 0, 8)              // F32 [8]: 32 bytes
	b.tensor("q", 3, 32, 64, 2)            // Q4_1, 2 rows of 64: 80 bytes
	b.tensor("moe", 10, 128, 256, 1, 1, 1) // Q2_K: known, not loadable
	return b.data(32, 128+84)
}

func TestGGUFReadsEveryKind(t *testing.T) {
	for _, version := range []uint32{2, 3} {
		f, err := OpenGGUF(write(t, "m.gguf", everyKind(version)))
		if err != nil {
			t.Fatal(err)
		}
		checkKinds(t, f.Metadata())
		info, ok := f.Info("q")
		if !ok || info.Type != "Q4_1" || !slices.Equal(info.Shape, []int{2, 64}) || info.Bytes != 80 || !info.Loadable {
			t.Errorf("q is %+v", info)
		}
		if info, _ := f.Info("moe"); info.Loadable || info.Type != "Q2_K" {
			t.Errorf("moe is %+v", info)
		}
		if f.Touched() != 0 {
			t.Errorf("touched %d bytes before any tensor", f.Touched())
		}
		q, err := f.Tensor("q")
		if err != nil {
			t.Fatal(err)
		}
		m, err := q.Matrix()
		if err != nil || m.Rows != 2 || m.Cols != 64 || m.Data[0] != 32 || len(m.Data) != 80 {
			t.Errorf("q: %v, rows %d, cols %d, first byte %d", err, m.Rows, m.Cols, m.Data[0])
		}
		if f.Touched() != 80 {
			t.Errorf("touched %d bytes, want 80", f.Touched())
		}
		f.Release("q")
		if m.Data[79] != 111 {
			t.Error("a released view no longer reads its file")
		}
		touch(t, f)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Tensor("q"); err == nil {
			t.Error("a closed file hands out tensors")
		}
		checkKinds(t, f.Metadata()) // outlives the mapping
	}
}

func checkKinds(t *testing.T, m *Metadata) {
	t.Helper()
	for key, want := range map[string]int64{
		"a.u8": 200, "a.i8": -1, "a.u16": 0x8000, "a.i16": -1, "a.u32": 1 << 31, "a.i32": -1, "a.u64": 1 << 40, "a.i64": -1,
	} {
		if n, ok := m.Int(key); !ok || n != want {
			t.Errorf("%s is %d, %v; want %d", key, n, ok, want)
		}
	}
	for key, want := range map[string]float64{"a.f32": 1.5, "a.f64": -2.25} {
		if v, ok := m.Float(key); !ok || v != want {
			t.Errorf("%s is %v, %v; want %v", key, v, ok, want)
		}
	}
	if v, ok := m.Bool("a.bool"); !ok || !v {
		t.Error("a.bool is not true")
	}
	if s, ok := m.String("a.str"); !ok || s != "héllo" {
		t.Errorf("a.str is %q, %v", s, ok)
	}
	if s, ok := m.Strings("a.strs"); !ok || !slices.Equal(s, []string{"x", "", "yz"}) {
		t.Errorf("a.strs is %q, %v", s, ok)
	}
	if n, ok := m.Ints("a.ints"); !ok || !slices.Equal(n, []int64{7, -1}) {
		t.Errorf("a.ints is %v, %v", n, ok)
	}
	for _, wrong := range []string{"a.str", "a.bool", "a.strs", "a.nested", "none"} {
		if _, ok := m.Int(wrong); ok {
			t.Errorf("%s reads as a whole number", wrong)
		}
		if _, ok := m.Floats(wrong); ok {
			t.Errorf("%s reads as floats", wrong)
		}
	}
}

func TestGGUFRefusesBadFiles(t *testing.T) {
	good := everyKind(3)
	tests := map[string]struct {
		data []byte
		want string
	}{
		"other file":     {[]byte("PK\x03\x04 and more bytes than a header"), "not a GGUF file"},
		"short":          {good[:20], "truncated or corrupt"},
		"version 1":      {newGGUF(1, 0, 0).buf, "version 1"},
		"big endian":     {newGGUF(3<<24, 0, 0).buf, "big-endian"},
		"in a key":       {good[:60], "truncated or corrupt"},
		"in the data":    {good[:len(good)-1], `tensor "moe" ends at byte`},
		"many keys":      {newGGUF(3, 0, 1<<40).buf, "metadata keys, the limit"},
		"many tensors":   {newGGUF(3, 1<<40, 0).buf, "tensors, the limit"},
		"claims tensors": {newGGUF(3, 1<<19, 0).buf, "tensor 0 of 524288 is truncated"},
		"unknown value":  {newGGUF(3, 0, 1).key("k", 99).buf, "unknown value type 99"},
		"long key":       {newGGUF(3, 0, 1).u64(1 << 20).buf, "a string of 1048576 bytes"},
		"long string":    {newGGUF(3, 0, 1).key("k", kindString).u64(math.MaxUint64).buf, "bytes are missing"},
		"long array":     {newGGUF(3, 0, 1).key("k", kindArray).u32(kindF64).u64(math.MaxUint64).buf, "an array of"},
		"array overflow": {newGGUF(3, 0, 1).key("k", kindArray).u32(kindF64).u64(math.MaxInt32).buf, "bytes are missing"},
		"deep array": {
			newGGUF(3, 0, 1).key("k", kindArray).u32(kindArray).u64(1).u32(kindArray).u64(1).u32(kindArray).u64(1).
				u32(kindArray).u64(1).u32(kindArray).u64(1).u32(kindU8).u64(0).buf,
			"nested",
		},
		"twice a key":       {newGGUF(3, 0, 2).key("k", kindU8).bytes(1).key("k", kindU8).bytes(1).buf, "appears twice"},
		"alignment 0":       {newGGUF(3, 0, 1).key("general.alignment", kindU32).u32(0).buf, "general.alignment is 0"},
		"alignment odd":     {newGGUF(3, 0, 1).key("general.alignment", kindU32).u32(24).buf, "general.alignment is 24"},
		"alignment text":    {newGGUF(3, 0, 1).key("general.alignment", kindString).str("x").buf, "general.alignment is of type string"},
		"split":             {newGGUF(3, 0, 1).key("split.count", kindU16).bytes(3, 0).buf, "split of 3 files"},
		"no name":           {newGGUF(3, 1, 0).tensor("", 0, 0, 4).data(32, 16), "no name"},
		"no dims":           {newGGUF(3, 1, 0).tensor("t", 0, 0).data(32, 16), "0 dimensions"},
		"many dims":         {newGGUF(3, 1, 0).tensor("t", 0, 0, 1, 1, 1, 1, 1).data(32, 16), "5 dimensions"},
		"zero dim":          {newGGUF(3, 1, 0).tensor("t", 0, 0, 4, 0).data(32, 16), "the dimension 0"},
		"huge dim":          {newGGUF(3, 1, 0).tensor("t", 0, 0, 1<<63).data(32, 16), "the dimension 9223372036854775808"},
		"elements overflow": {newGGUF(3, 1, 0).tensor("t", 0, 0, 1<<40, 1<<40).data(32, 16), "overflows"},
		"bytes overflow":    {newGGUF(3, 1, 0).tensor("t", 28, 0, 1<<61).data(32, 16), "overflows"},
		"unknown type":      {newGGUF(3, 1, 0).tensor("t", 77, 0, 4).data(32, 16), `tensor "t" has the unknown type 77`},
		"broken rows":       {newGGUF(3, 1, 0).tensor("t", 3, 0, 48, 2).data(32, 60), "no whole number of Q4_1 blocks"},
		"misaligned":        {newGGUF(3, 1, 0).tensor("t", 0, 4, 4).data(32, 32), "not a multiple of the alignment 32"},
		"outside":           {newGGUF(3, 1, 0).tensor("t", 0, 32, 4).data(32, 32), "truncated or corrupt"},
		"far outside":       {newGGUF(3, 1, 0).tensor("t", 0, 1<<63, 4).data(32, 32), "starts at offset"},
		"twice a tensor":    {newGGUF(3, 2, 0).tensor("t", 0, 0, 4).tensor("t", 0, 32, 4).data(32, 64), "appears twice"},
		"overlap":           {newGGUF(3, 2, 0).tensor("s", 0, 0, 16).tensor("t", 0, 32, 4).data(32, 64), "overlap"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := write(t, "m.gguf", tt.data)
			f, err := OpenGGUF(path)
			if err == nil {
				f.Close()
				t.Fatal("opened")
			}
			oneLine(t, err, path, tt.want)
		})
	}
}

// oneLine checks an error for users: one line that names the file and the trouble.
func oneLine(t *testing.T, err error, path, want string) {
	t.Helper()
	msg := err.Error()
	if strings.Contains(msg, "\n") || !strings.Contains(msg, path) || !strings.Contains(msg, want) {
		t.Errorf("error %q: want one line with the path and %q", msg, want)
	}
}

// bigVocabulary is how many tokens the largest vocabularies have.
const bigVocabulary = 262_144

// vocabularyFile writes a file with a vocabulary of that size.
func vocabularyFile(t testing.TB) string {
	const n = bigVocabulary
	b := newGGUF(3, 0, 3)
	b.key("tokenizer.ggml.tokens", kindArray).u32(kindString).u64(n)
	for i := range n {
		b.str(fmt.Sprintf("token%d", i))
	}
	b.key("tokenizer.ggml.scores", kindArray).u32(kindF32).u64(n)
	for i := range n {
		b.u32(math.Float32bits(float32(i)))
	}
	b.key("tokenizer.ggml.token_type", kindArray).u32(kindI32).u64(n)
	for range n {
		b.u32(1)
	}
	return write(t, "vocab.gguf", b.buf)
}

// readVocabulary opens such a file and reads all of it.
func readVocabulary(t testing.TB, path string) {
	const n = bigVocabulary
	f, err := OpenGGUF(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tokens, ok1 := f.Metadata().Strings("tokenizer.ggml.tokens")
	scores, ok2 := f.Metadata().Floats("tokenizer.ggml.scores")
	types, ok3 := f.Metadata().Ints("tokenizer.ggml.token_type")
	if !ok1 || !ok2 || !ok3 || len(tokens) != n || tokens[n-1] != "token262143" || scores[n-1] != n-1 || types[0] != 1 {
		t.Fatal("the vocabulary is not what was written")
	}
}

// A large vocabulary is read by work that grows with it and no faster: BenchmarkGGUFBigVocabulary times it.
func TestGGUFBigVocabulary(t *testing.T) {
	path := vocabularyFile(t)
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	n := meter.Allocated(func() { readVocabulary(t, path) })
	if t.Logf("%d bytes for a file of %d", n, st.Size()); n > 8*uint64(st.Size()) {
		t.Errorf("%d bytes for a file of %d", n, st.Size())
	}
}

// BenchmarkGGUFBigVocabulary should take well under half a second.
func BenchmarkGGUFBigVocabulary(b *testing.B) {
	path := vocabularyFile(b)
	for b.Loop() {
		readVocabulary(b, path)
	}
}

func FuzzGGUF(f *testing.F) {
	f.Add(everyKind(3))
	f.Add(everyKind(2)[:300])
	f.Add(newGGUF(3, 1, 0).tensor("t", 3, 0, 64, 2).data(32, 80))
	f.Add(newGGUF(3, 0, 1).key("k", kindArray).u32(kindArray).u64(1).u32(kindString).u64(2).str("a").str("b").buf)
	f.Fuzz(func(t *testing.T, data []byte) {
		file := &File{format: GGUF, entries: map[string]entry{}, parts: []*mapping{{data: data}}}
		if file.addGGUF(t.Context(), 0, 1) != nil || file.checkTotal() != nil || file.finish() != nil {
			return
		}
		touch(t, file)
		m := file.Metadata()
		for _, key := range m.Keys() {
			m.Int(key)
			m.Float(key)
			m.Bool(key)
			m.String(key)
			m.Strings(key)
			m.Ints(key)
			m.Floats(key)
		}
	})
}

// The canonical form says keys, types and values, in order, of one prefix alone.
func TestEncodeMetadata(t *testing.T) {
	meta := func(pairs map[string]value) *Metadata { return &Metadata{values: pairs} }
	base := func() map[string]value {
		return map[string]value{"t.b": {kind: kindU32, raw: []byte{1, 0, 0, 0}}, "t.a": {kind: kindString, raw: []byte("xx")}, "other": {kind: kindBool, raw: []byte{1}}}
	}
	want := string(meta(base()).Encode("t."))
	if want[8:11] != "t.a" || meta(map[string]value{"other": {}}).Encode("t.") != nil {
		t.Errorf("%q", want)
	}
	for name, c := range map[string]struct {
		change func(map[string]value)
		same   bool
	}{
		"another key":    {func(m map[string]value) { m["t.c"] = m["t.b"]; delete(m, "t.b") }, false},
		"another type":   {func(m map[string]value) { m["t.b"] = value{kind: kindI32, raw: []byte{1, 0, 0, 0}} }, false},
		"another value":  {func(m map[string]value) { m["t.b"] = value{kind: kindU32, raw: []byte{2, 0, 0, 0}} }, false},
		"of an array":    {func(m map[string]value) { m["t.b"] = value{kind: kindU32, count: 1, raw: []byte{1, 0, 0, 0}} }, false},
		"outside prefix": {func(m map[string]value) { m["other"] = value{} }, true},
	} {
		m := base()
		c.change(m)
		if same := string(meta(m).Encode("t.")) == want; same != c.same {
			t.Errorf("%s: the same: %t", name, same)
		}
	}
}
