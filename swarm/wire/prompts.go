package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"whorl/content"
)

// MaxPrompt is the most rows that prompts have.
const MaxPrompt = 1 << 10

// Prompts name trained rows that a session adds to the inputs of blocks at its first positions. All
// stages get the whole list, by which the session's mode is named, and each is sent the rows of
// its own blocks.
type Prompts struct {
	Rows   int            `json:"rows"`   // of each block
	Blocks []content.Hash `json:"blocks"` // HashPrompts of each block of the model
}

var (
	promptsDomain = content.NewDomain("whorl prompts")
	promptDomain  = content.NewDomain("whorl prompts of a block")
)

// HashPrompts names the rows of one block.
func HashPrompts(values []float32) content.Hash {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return promptDomain.Of(b)
}

// Hash names all of them.
func (p *Prompts) Hash() content.Hash {
	parts := [][]byte{binary.LittleEndian.AppendUint64(nil, uint64(p.Rows))}
	for i := range p.Blocks {
		parts = append(parts, p.Blocks[i][:])
	}
	return promptsDomain.Of(parts...)
}

// Validate checks prompts for a model of so many blocks and a session of so many positions.
func (p *Prompts) Validate(blocks, length int) error {
	if p.Rows < 1 || p.Rows > min(MaxPrompt, length) || len(p.Blocks) != blocks {
		return fmt.Errorf("prompts of %d rows for %d blocks, in a session of %d positions through %d: want 1 to %d rows for each block", p.Rows, len(p.Blocks), length, blocks, MaxPrompt)
	}
	return nil
}

// Sent is what a stage of so many blocks is sent.
func (p *Prompts) Sent(blocks int) *Sections {
	s := &Sections{}
	s.add(SectionPrompts, blocks*p.Rows)
	return s
}
