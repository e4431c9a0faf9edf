package proof

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"whorl/content"
	"whorl/internal/golden"
	"whorl/swarm"
)

var base = Mode{Activations: "8bit", MaxLength: 2048}

func filled(b byte) (h content.Hash) {
	for i := range h {
		h[i] = b
	}
	return h
}

// modes are the golden vectors: each differs from the first in one member.
var modes = []struct {
	name string
	mode Mode
}{
	{"base", base},
	{"f32 activations", Mode{Activations: "f32", MaxLength: 2048}},
	{"rounded residual", Mode{Activations: "8bit", Residual: "bf16", MaxLength: 2048}},
	{"longer", Mode{Activations: "8bit", MaxLength: 2049}},
	{"adapter", Mode{Activations: "8bit", MaxLength: 2048, Adapter: "c0ffee"}},
	{"prompts", Mode{Activations: "8bit", MaxLength: 2048, Prompts: filled(1)}},
	{"processors", Mode{Activations: "8bit", MaxLength: 2048, Processors: filled(1)}},
}

var baseLeaf = Leaf{
	Mode: base.Hash(), Manifest: filled(2), Span: swarm.Span{Start: 3, End: 7}, Row: 9, Position: 8, Parent: 5,
	In: HashRow([]float32{1, -2, 0.5}), Out: HashRow([]float32{0, 3}),
}

func leaves() map[string]Leaf {
	all := map[string]Leaf{"base": baseLeaf}
	for name, change := range map[string]func(*Leaf){
		"mode": func(l *Leaf) { l.Mode = filled(9) }, "manifest": func(l *Leaf) { l.Manifest = filled(9) },
		"start": func(l *Leaf) { l.Span.Start = 4 }, "end": func(l *Leaf) { l.Span.End = 8 },
		"row": func(l *Leaf) { l.Row = 10 }, "position": func(l *Leaf) { l.Position = 9 }, "parent": func(l *Leaf) { l.Parent = 6 },
		"no parent": func(l *Leaf) { l.Parent = NoParent },
		"in":        func(l *Leaf) { l.In = filled(9) }, "out": func(l *Leaf) { l.Out = filled(9) },
	} {
		l := baseLeaf
		change(&l)
		all[name] = l
	}
	return all
}

// TestGolden pins every definition: a change of these texts is a new protocol.
func TestGolden(t *testing.T) {
	text := ""
	for _, m := range modes {
		text += fmt.Sprintf("mode %-18s %s\n", m.name, m.mode.Hash())
	}
	for _, row := range [][]float32{nil, {0}, {float32(math.Copysign(0, -1))}, {1, -2, 0.5}, {math.MaxFloat32, math.SmallestNonzeroFloat32}} {
		text += fmt.Sprintf("row %v %s\n", row, HashRow(row))
	}
	all := leaves()
	for _, name := range []string{"base", "mode", "manifest", "start", "end", "row", "position", "parent", "no parent", "in", "out"} {
		l := all[name]
		text += fmt.Sprintf("leaf %-10s %s\n", name, l.Hash())
	}
	golden.Check(t, "testdata/golden.txt", text)
}

func TestAllDiffer(t *testing.T) {
	seen := map[content.Hash]string{}
	add := func(name string, h content.Hash) {
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[h] = name
	}
	for _, m := range modes {
		add("mode "+m.name, m.mode.Hash())
	}
	for name, l := range leaves() {
		add("leaf "+name, l.Hash())
	}
	for _, same := range []Mode{{MaxLength: 2048}, {Activations: "auto", Residual: DefaultResidual, MaxLength: 2048}} {
		if same.Hash() != base.Hash() {
			t.Errorf("%+v says the same in other words and has another hash", same)
		}
	}
}

// TestByHand computes one of each from the words of the definition.
func TestByHand(t *testing.T) {
	domain := func(name string) []byte { return append([]byte(name), make([]byte, 64-len(name))...) }
	le := binary.LittleEndian

	mode := []byte{1, 4, 0, '8', 'b', 'i', 't', 2, 3, 0, 'f', '3', '2', 3, 8, 0}
	mode = le.AppendUint64(mode, 2048)
	whole := append(le.AppendUint64(domain("whorl session mode"), uint64(len(mode))), mode...)
	if got := base.Hash(); got != sha256.Sum256(whole) {
		t.Errorf("mode %s", got)
	}

	row := domain("whorl row")
	for _, v := range []float32{1, -2, 0.5} {
		row = le.AppendUint32(row, math.Float32bits(v))
	}
	if baseLeaf.In != sha256.Sum256(row) {
		t.Errorf("row %s", baseLeaf.In)
	}

	leaf := append(domain("whorl leaf of a row"), baseLeaf.Mode[:]...)
	leaf = append(leaf, baseLeaf.Manifest[:]...)
	for _, n := range []uint32{3, 7, 9, 8, 5} {
		leaf = le.AppendUint32(leaf, n)
	}
	leaf = append(append(leaf, baseLeaf.In[:]...), baseLeaf.Out[:]...)
	if got := baseLeaf.Hash(); got != sha256.Sum256(leaf) {
		t.Errorf("leaf %s", got)
	}

	_, log := history(2)
	r := receiptOf(log, newSigner(1))
	receipt := append(bytes.Clone(r.Mode[:]), r.Manifest[:]...)
	for _, n := range []uint32{3, 7, 2} {
		receipt = le.AppendUint32(receipt, n)
	}
	receipt = append(append(append(receipt, r.Nonce[:]...), r.Root[:]...), r.Sig...)
	if got := r.Append(nil); !bytes.Equal(got, receipt) {
		t.Errorf("receipt %x", got)
	}
}

// TestRowBytes compares the two ways to hash values, of which a machine uses one.
func TestRowBytes(t *testing.T) {
	row := make([]float32, 1000)
	for i := range row {
		row[i] = float32(i)*0.37 - 11
	}
	for _, n := range []int{0, 1, 255, 256, 257, 1000} {
		sum := sha256.New()
		sum.Write(rowDomain[:])
		writeValues(sum, row[:n])
		if got := HashRow(row[:n]); got != content.Hash(sum.Sum(nil)) {
			t.Errorf("%d values: %s", n, got)
		}
	}
}

// BenchmarkLeaf is what a receipt costs a stage for one row: both rows and the leaf.
func BenchmarkLeaf(b *testing.B) {
	for _, hidden := range []int{576, 4096, 8192} {
		b.Run(fmt.Sprint(hidden), func(b *testing.B) {
			in, out, l := make([]float32, hidden), make([]float32, hidden), baseLeaf
			b.ReportAllocs()
			for b.Loop() {
				l.In, l.Out = HashRow(in), HashRow(out)
				l.Hash()
			}
		})
	}
}
