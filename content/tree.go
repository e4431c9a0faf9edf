package content

import (
	"crypto/sha256"
	"math/bits"
)

// ChunkSize is the length of a leaf of a tree in bytes; the last one may be shorter. A
// reader can check any chunk by itself, with 32 bytes a level of the tree.
const ChunkSize = 64 << 10

// The first byte of what is hashed keeps leaves apart from nodes (RFC 6962, section 2.1).
const (
	leafPrefix = 0
	nodePrefix = 1
)

// Tree names bytes: the root of the Merkle tree of RFC 6962 over chunks of ChunkSize. A
// tree does not tell how long its bytes are: whoever keeps the name keeps the length too.
func Tree(data []byte) Hash {
	var r Roots
	for len(data) > ChunkSize {
		r.Add(LeafOf(data[:ChunkSize]))
		data = data[ChunkSize:]
	}
	if len(data) > 0 {
		r.Add(LeafOf(data))
	}
	return r.Root()
}

// LeafOf is the hash of one leaf.
func LeafOf(chunk []byte) Hash {
	sum := sha256.New()
	sum.Write([]byte{leafPrefix})
	sum.Write(chunk)
	var h Hash
	sum.Sum(h[:0])
	return h
}

func node(left, right Hash) Hash {
	var b [1 + 2*len(Hash{})]byte
	b[0] = nodePrefix
	copy(b[1:], left[:])
	copy(b[1+len(left):], right[:])
	return sha256.Sum256(b[:])
}

// Roots takes the leaves of a tree one after another and keeps a hash a level. The zero
// value is a tree without leaves.
type Roots struct {
	n     uint64
	level [64]Hash // of the complete subtrees: level[i] counts if bit i of n is set
}

// Add appends a leaf.
func (r *Roots) Add(leaf Hash) { r.AddTree(leaf, 0) }

// AddTree appends the root of 1<<level leaves, behind a multiple of so many.
func (r *Roots) AddTree(root Hash, level int) {
	i := level
	for ; r.n>>i&1 == 1; i++ {
		root = node(r.level[i], root)
	}
	r.level[i] = root
	r.n += 1 << level
}

// Root is the root over the leaves so far.
func (r *Roots) Root() Hash {
	if r.n == 0 {
		return sha256.Sum256(nil)
	}
	low := bits.TrailingZeros64(r.n)
	root := r.level[low]
	for i := low + 1; r.n>>i > 0; i++ {
		if r.n>>i&1 == 1 {
			root = node(r.level[i], root)
		}
	}
	return root
}

// TreeOf names bytes of which the trees of all parts are known: each part but the last has
// 1<<level leaves, and the last at most so many. It is what Tree gives for all of the bytes.
func TreeOf(parts []Hash, level int) Hash {
	var r Roots
	last := len(parts) - 1
	if last < 0 {
		return r.Root()
	}
	for _, p := range parts[:last] {
		r.AddTree(p, level)
	}
	root := parts[last]
	for i := level; r.n>>i > 0; i++ {
		if r.n>>i&1 == 1 {
			root = node(r.level[i], root)
		}
	}
	return root
}
