package share

import (
	"fmt"
	"io"
	"slices"
	"sync"

	"whorl/content"
	"whorl/swarm/wire"
)

// Holder has the bytes of an object, all or some. Safe for concurrent use.
type Holder interface {
	io.ReaderAt
	// Has tells whether a piece is there.
	Has(piece int) bool
}

// Store is what a node gives to others. The zero value gives nothing. Safe for concurrent use.
type Store struct {
	mu      sync.Mutex // guards objects
	objects map[content.Hash]*held
}

// held is an object of the store.
type held struct {
	Object
	hashes []content.Hash // of pieces
	from   Holder

	mu    sync.Mutex // guards state
	state []byte     // of pieces: what they were found to be
}

// What a piece was found to be when it was first read.
const (
	unread = iota
	good
	spoilt // not what its hash names: never given
)

// Add gives an object whose pieces have these trees. One that is there already is replaced.
func (s *Store) Add(o Object, hashes []content.Hash, from Holder) error {
	if !o.Fits(hashes) {
		return fmt.Errorf("%d trees of pieces do not make the object %s of %d bytes", len(hashes), o.Root.Short(), o.Size)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[content.Hash]*held{}
	}
	s.objects[o.Root] = &held{Object: o, hashes: slices.Clone(hashes), from: from, state: make([]byte, o.Pieces())}
	return nil
}

// AddBytes gives an object that is in memory, and returns its name.
func (s *Store) AddBytes(data []byte) Object {
	o := Object{content.Tree(data), int64(len(data))}
	s.Add(o, HashPieces(data), memory(data)) // fits by construction
	return o
}

// Clear gives nothing any more.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects = nil
}

func (s *Store) find(root content.Hash) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[root]
}

// have lists what is there now.
func (h *held) have() wire.Have {
	out := wire.Have{Size: h.Size, Bits: make([]byte, (h.Pieces()+7)/8)}
	all := true
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.state {
		if h.state[i] != spoilt && h.from.Has(i) {
			out.Bits[i/8] |= 1 << (i % 8)
		} else {
			all = false
		}
	}
	if all {
		out.Bits = nil
	}
	return out
}

// read reads a piece into buf, which is as long; false if it is not there, or not what it should
// be. A file may have been changed behind this node's back, and whoever gave such bytes
// would be held to be a liar: each piece is checked before it is given first.
func (h *held) read(piece int, buf []byte) bool {
	h.mu.Lock()
	state := h.state[piece]
	h.mu.Unlock()
	if state == spoilt || !h.from.Has(piece) {
		return false
	}
	from, _ := h.span(piece)
	if n, err := h.from.ReadAt(buf, from); n < len(buf) && err != nil {
		return false
	}
	if state == good {
		return true
	}
	state = good
	if content.Tree(buf) != h.hashes[piece] {
		state = spoilt
	}
	h.mu.Lock()
	h.state[piece] = state
	h.mu.Unlock()
	return state == good
}

// memory holds bytes.
type memory []byte

func (m memory) Has(int) bool { return true }

func (m memory) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(m)) {
		return 0, io.EOF
	}
	n := copy(p, m[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// HashPieces names the pieces of bytes.
func HashPieces(data []byte) []content.Hash {
	var out []content.Hash
	for len(data) > 0 {
		n := min(len(data), wire.PieceSize)
		out = append(out, content.Tree(data[:n]))
		data = data[n:]
	}
	return out
}
