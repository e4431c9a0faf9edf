package wire

import (
	"encoding/binary"
	"fmt"
)

// MaxBeams is the most sequences of one session.
const MaxBeams = 32

// Beams says that rows belong to several sequences of one session: those of a beam search.
// The zero value says that they belong to one.
//
// The log of a session counts rows, not positions. Its first Fork rows are the positions of
// one sequence. Behind it every N rows are a step: row i continues what was sequence
// Parents[i] before the step, by one position, and is the end of sequence i from then on.
// Before the first step there is only sequence 0. A stage lets each sequence take over its
// parent's cache before it computes the first row of a step; rows of a step that were cut
// off are sent again with the same Parents.
type Beams struct {
	N       uint8 // sequences; 0: the rows belong to one
	Fork    uint32
	Parents [MaxBeams]uint8 // the first N count
}

// size is what they take on the wire, behind the RowsHeader.
func (b *Beams) size() int {
	if b.N == 0 {
		return 0
	}
	return 4 + int(b.N)
}

func (b *Beams) append(dst []byte) []byte {
	if b.N == 0 {
		return dst
	}
	dst = binary.LittleEndian.AppendUint32(dst, b.Fork)
	return append(dst, b.Parents[:b.N]...)
}

// parse reads n sequences from what follows the header of rows [start, end).
func (b *Beams) parse(p []byte, n uint8, start, end int) error {
	if n > MaxBeams || len(p) < 4+int(n) {
		return fmt.Errorf("%w: rows of %d sequences in %d bytes", ErrFrame, n, len(p))
	}
	b.N, b.Fork = n, binary.LittleEndian.Uint32(p)
	copy(b.Parents[:], p[4:4+n])
	if b.Fork < 1 || int64(b.Fork) > int64(start) || end > b.Step(start)+int(n) {
		return fmt.Errorf("%w: rows %d to %d of %d sequences that part at %d", ErrFrame, start, end-1, n, b.Fork)
	}
	for _, parent := range b.Parents[:n] {
		if parent >= n || parent > 0 && b.Step(start) == int(b.Fork) {
			return fmt.Errorf("%w: a sequence continues sequence %d of %d", ErrFrame, parent, n)
		}
	}
	return nil
}

// Step is the first row of the step that a row at or behind Fork belongs to; N is not 0.
func (b *Beams) Step(row int) int {
	fork, n := int(b.Fork), int(b.N)
	return fork + (row-fork)/n*n
}

// Position is the position in its sequence that a row of the log has.
func (b *Beams) Position(row int) int {
	if b.N == 0 {
		return row
	}
	return int(b.Fork) + (row-int(b.Fork))/int(b.N)
}

// Parent is the row of the log that a row continues, as its leaf names it (package proof);
// -1 for the first of the log. The row must belong to the step of Parents, or lie before
// Fork.
func (b *Beams) Parent(row int) int {
	if b.N == 0 || row < int(b.Fork) {
		return row - 1
	}
	step := b.Step(row)
	if step == int(b.Fork) {
		return step - 1 // before the first step there is only sequence 0
	}
	return step - int(b.N) + int(b.Parents[row-step])
}
