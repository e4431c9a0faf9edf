package content

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// TestTreeOfRFC6962 compares roots with those that Certificate Transparency publishes as
// test data: seven bytes lists, one leaf more in each tree.
func TestTreeOfRFC6962(t *testing.T) {
	leaves := []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"}
	roots := []string{
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		"76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
		"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	}
	var r Roots
	for i, want := range roots {
		if got := r.Root(); got.String() != want {
			t.Errorf("%d leaves: root %s, want %s", i, got, want)
		}
		if i < len(leaves) {
			leaf, err := hex.DecodeString(leaves[i])
			if err != nil {
				t.Fatal(err)
			}
			r.Add(LeafOf(leaf))
		}
	}
}

// rootOf is the definition of the RFC, word for word.
func rootOf(leaves []Hash) Hash {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	return node(rootOf(leaves[:k]), rootOf(leaves[k:]))
}

// TestAddTree adds complete subtrees in place of their leaves.
func TestAddTree(t *testing.T) {
	leaves := make([]Hash, 23)
	for i := range leaves {
		leaves[i] = LeafOf([]byte{byte(i)})
	}
	for n := range len(leaves) + 1 {
		for level := range 4 {
			var r Roots
			at := 0
			for ; at+1<<level <= n; at += 1 << level {
				r.AddTree(rootOf(leaves[at:at+1<<level]), level)
			}
			for ; at < n; at++ {
				r.Add(leaves[at])
			}
			if got, want := r.Root(), rootOf(leaves[:n]); got != want {
				t.Errorf("%d leaves by subtrees of level %d: %s, want %s", n, level, got, want)
			}
		}
	}
}

func TestTreeOfChunks(t *testing.T) {
	for _, n := range []int{0, 1, ChunkSize - 1, ChunkSize, ChunkSize + 1, 2 * ChunkSize, 3*ChunkSize + 5, 13 * ChunkSize, 16*ChunkSize + 1} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i * 31 >> 3)
		}
		var leaves []Hash
		for rest := data; len(rest) > 0; rest = rest[min(len(rest), ChunkSize):] {
			leaves = append(leaves, LeafOf(rest[:min(len(rest), ChunkSize)]))
		}
		if got, want := Tree(data), rootOf(leaves); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
		if n > 0 {
			before := Tree(data)
			data[n/2] ^= 1
			if Tree(data) == before {
				t.Errorf("%d bytes: a changed byte has the same tree", n)
			}
		}
	}
}

// TestTreeOfParts makes the tree of all from the trees of parts.
func TestTreeOfParts(t *testing.T) {
	for _, level := range []int{0, 1, 4} {
		size := ChunkSize << level
		for _, n := range []int{0, 1, size - 1, size, size + 1, 2 * size, 3*size + ChunkSize + 5, 4 * size, 7*size + 1} {
			data := make([]byte, n)
			for i := range data {
				data[i] = byte(i * 29 >> 4)
			}
			var parts []Hash
			for rest := data; len(rest) > 0; rest = rest[min(len(rest), size):] {
				parts = append(parts, Tree(rest[:min(len(rest), size)]))
			}
			if got, want := TreeOf(parts, level), Tree(data); got != want {
				t.Errorf("%d bytes in parts of %d leaves: %s, want %s", n, 1<<level, got, want)
			}
		}
	}
}

func TestDomains(t *testing.T) {
	a, b := NewDomain("a"), NewDomain("b")
	seen := map[Hash]string{}
	for name, h := range map[string]Hash{
		"nothing": a.Of(), "nothing in b": b.Of(), "an empty part": a.Of(nil), "x": a.Of([]byte("x")), "x in b": b.Of([]byte("x")),
		"xy": a.Of([]byte("xy")), "x, y": a.Of([]byte("x"), []byte("y")), "x, empty, y": a.Of([]byte("x"), nil, []byte("y")),
	} {
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[h] = name
	}
	// By hand: 64 bytes of domain, then each part behind its length.
	whole := append(append([]byte("a"), make([]byte, 63)...), 2, 0, 0, 0, 0, 0, 0, 0, 'x', 'y')
	if got, want := a.Of([]byte("xy")), Hash(sha256.Sum256(whole)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, name := range []string{"", strings.Repeat("n", 64)} {
		func() {
			defer func() { recover() }()
			NewDomain(name)
			t.Errorf("a domain named by %d bytes is taken", len(name))
		}()
	}
}

func TestHashText(t *testing.T) {
	h := LeafOf(nil)
	text, _ := h.MarshalText()
	var back Hash
	if err := back.UnmarshalText(text); err != nil || back != h || string(text) != h.String() || h.Short() != "6e340b9cffb3" {
		t.Errorf("%s became %s (%v)", h, back, err)
	}
	if text, _ := (Hash{}).MarshalText(); len(text) != 0 || back.UnmarshalText(nil) != nil || !back.IsZero() {
		t.Errorf("the zero hash is written %q", text)
	}
	for _, bad := range [][]byte{text[1:], bytes.ToUpper(text), append(bytes.Clone(text[:63]), 'g'), append(bytes.Clone(text), '0')} {
		if back.UnmarshalText(bad) == nil {
			t.Errorf("%q is taken for a hash", bad)
		}
	}
}

func BenchmarkTree(b *testing.B) {
	data := make([]byte, 32<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		Tree(data)
	}
}
