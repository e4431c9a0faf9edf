package proof

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"unsafe"

	"whorl/content"
	"whorl/swarm"
)

// Leaf is one row that one stage computed. It names the rows before it by its parent alone
// and chains nothing, so that leaves stay as they are when a history is cut, when sequences
// part, and when the rest of a session is computed elsewhere.
type Leaf struct {
	Mode     content.Hash // of the session: Mode.Hash
	Manifest content.Hash // that the UID is
	Span     swarm.Span   // that the stage computed
	Row      uint32       // place in the session's log
	Position uint32       // in the row's sequence
	Parent   uint32       // row of the log that it continues; NoParent for the first
	In, Out  content.Hash // of the row before and after the span: HashRow
}

// NoParent is the Leaf.Parent of a sequence's first row.
const NoParent = math.MaxUint32

var (
	leafDomain = content.NewDomain("whorl leaf of a row")
	rowDomain  = content.NewDomain("whorl row")
)

// leafSize is what is hashed behind the domain.
const leafSize = 4*sha256.Size + 5*4

// Hash names the leaf: SHA-256 over its domain and 148 bytes, the members in their order,
// numbers as four little-endian bytes.
func (l *Leaf) Hash() content.Hash {
	var b [len(content.Domain{}) + leafSize]byte
	p := append(b[:0], leafDomain[:]...)
	p = append(p, l.Mode[:]...)
	p = append(p, l.Manifest[:]...)
	for _, n := range [...]uint32{uint32(l.Span.Start), uint32(l.Span.End), l.Row, l.Position, l.Parent} {
		p = binary.LittleEndian.AppendUint32(p, n)
	}
	p = append(p, l.In[:]...)
	p = append(p, l.Out[:]...)
	return sha256.Sum256(p)
}

// HashRow names a row: SHA-256 over its domain and the bits of its values, four little-endian
// bytes each, whatever they were coded in on their way. One stage's output is the next one's
// input, so either of them needs to be hashed once.
func HashRow(row []float32) content.Hash {
	sum := sha256.New()
	sum.Write(rowDomain[:]) // a hash never fails
	if littleEndian && len(row) > 0 {
		sum.Write(unsafe.Slice((*byte)(unsafe.Pointer(&row[0])), 4*len(row)))
	} else {
		writeValues(sum, row)
	}
	var h content.Hash
	sum.Sum(h[:0])
	return h
}

// littleEndian tells whether this machine holds values as they are hashed.
var littleEndian = func() bool {
	one := [1]uint16{1}
	return *(*byte)(unsafe.Pointer(&one[0])) == 1
}()

func writeValues(sum interface{ Write([]byte) (int, error) }, row []float32) {
	var b [1024]byte
	for len(row) > 0 {
		n := min(len(row), len(b)/4)
		for i, v := range row[:n] {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
		}
		sum.Write(b[:4*n])
		row = row[n:]
	}
}
