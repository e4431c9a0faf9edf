package wire

import (
	"encoding/binary"
	"fmt"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/proof"
)

// # Pass protocol
//
// Whoever trains has servers compute without a session: forward through a span, or backward,
// which computes forward again and then the gradients. A stream ([ProtoPass]) carries one pass:
//
//	client                    server
//	  | -- Pass ---------------> |   all sizes are in it
//	  | <-------- Grant or Fail -|   memory for all of it is reserved
//	  | -- Chunk ... ----------> |   inputs, gradients of outputs (backward), prompts (if any)
//	  | -- Ask ----------------> |   at any time
//	  | <-------------- Progress |
//	  | <------------- Chunk ... |   outputs; or gradients of inputs, then of prompts
//	  | <----------------- Fail -|   ends it
//
// Rows are float32, those of all sequences one behind another. Each section comes whole and in
// order, in as many chunks as its sender likes.

// PassWait is how long a server keeps a pass waiting for memory, before Grant or Fail.
const PassWait = 3 * time.Second

// Limits of a pass, whatever a server allows.
const (
	MaxPass          = 32 << 10 // bytes of a Pass frame
	MaxPassSequences = 1 << 12
	MaxPassRows      = 1 << 16
	MaxSectionRows   = 1 << 24 // prompts have one for each block, sequence and position
)

// Pass asks a server for one pass through blocks that it holds.
type Pass struct {
	Version  int            `json:"version"`
	Features swarm.Features `json:"features,omitempty"` // of the client
	UID      swarm.UID      `json:"uid"`
	// Mode is what the client takes for PassMode().Hash(), as in Open.
	Mode     content.Hash `json:"mode"`
	Span     swarm.Span   `json:"span"` // part of the span the server holds
	Backward bool         `json:"backward,omitempty"`
	// Lengths are the rows of each sequence; they begin at position 0.
	Lengths []int `json:"lengths"`
	// Prompt is how many rows at the start of each sequence prompts are added to, in front of
	// each block of the span; 0: there are none.
	Prompt int `json:"prompt,omitempty"`
	// Shared says that all sequences have the same prompts, which then come once. Their gradients
	// come for each sequence all the same, so that the client adds them up in its own order.
	Shared bool `json:"shared,omitempty"`
	// Length is the number of positions that rotations are made for, as MaxLength of an Open; 0:
	// those of each sequence.
	Length int `json:"length"`
	// Adapter, if given, changes what the span's blocks compute.
	Adapter *swarm.Adapter `json:"adapter,omitempty"`
	// Millis is how long the client waits for all of it.
	Millis int64 `json:"ms"`
}

// PassMode is all of the frame that alters what is computed of the rows.
func (p *Pass) PassMode() proof.Mode {
	m := proof.Mode{Activations: "f32", MaxLength: p.Length}
	if p.Adapter != nil {
		m.Adapter = p.Adapter.Digest
	}
	return m
}

// Validate checks all that needs no knowledge of the server.
func (p *Pass) Validate() error {
	if len(p.Lengths) < 1 || len(p.Lengths) > MaxPassSequences {
		return fmt.Errorf("a pass of %d sequences, want 1 to %d", len(p.Lengths), MaxPassSequences)
	}
	rows := 0
	for i, n := range p.Lengths {
		if n < 1 || n > MaxPassRows || p.Length > 0 && n > p.Length || n < p.Prompt {
			return fmt.Errorf("sequence %d of %d rows in a pass of length %d with %d rows of prompts", i, n, p.Length, p.Prompt)
		}
		if rows += n; rows > MaxPassRows {
			return fmt.Errorf("a pass of more than %d rows", MaxPassRows)
		}
	}
	switch {
	case p.Span.Start < 0 || p.Span.Start >= p.Span.End:
		return fmt.Errorf("a pass through blocks %v", p.Span)
	case p.Length < 0 || p.Length > MaxPosition || p.Prompt < 0 || p.Millis < 1:
		return fmt.Errorf("a pass of length %d with %d rows of prompts, within %d ms", p.Length, p.Prompt, p.Millis)
	case int64(p.Span.Len())*int64(len(p.Lengths))*int64(p.Prompt) > MaxSectionRows:
		return fmt.Errorf("prompts of %d rows in front of %d blocks for %d sequences: at most %d in all", p.Prompt, p.Span.Len(), len(p.Lengths), MaxSectionRows)
	}
	return nil
}

// Rows is how many rows all sequences have together.
func (p *Pass) Rows() (n int) {
	for _, l := range p.Lengths {
		n += l
	}
	return n
}

// Section is a run of rows of a pass.
type Section uint8

// The sections.
const (
	SectionInputs      Section = iota + 1 // rows in front of the span, before prompts are added
	SectionGradients                      // of what the client minimises, with respect to the span's outputs
	SectionPrompts                        // [block][sequence, or 1 if they are shared][position]
	SectionOutputs                        // rows behind the span
	SectionInputGrads                     // with respect to the inputs
	SectionPromptGrads                    // with respect to the prompts: [block][sequence][position]
	numSections
)

// Sent and Returned are the sections that go to the server and come back, with their rows.
func (p *Pass) Sent() *Sections {
	s := &Sections{}
	s.add(SectionInputs, p.Rows())
	if p.Backward {
		s.add(SectionGradients, p.Rows())
	}
	if tables := len(p.Lengths); p.Prompt > 0 {
		if p.Shared {
			tables = 1
		}
		s.add(SectionPrompts, p.Span.Len()*tables*p.Prompt)
	}
	return s
}

// Returned are the sections that come back.
func (p *Pass) Returned() *Sections {
	s := &Sections{}
	if !p.Backward {
		s.add(SectionOutputs, p.Rows())
		return s
	}
	s.add(SectionInputGrads, p.Rows())
	if p.Prompt > 0 {
		s.add(SectionPromptGrads, p.Span.Len()*len(p.Lengths)*p.Prompt)
	}
	return s
}

// Sections are those of one direction in order, and how far they have come.
type Sections struct {
	list []struct {
		what Section
		rows int
	}
	at, row int
}

func (s *Sections) add(what Section, rows int) {
	s.list = append(s.list, struct {
		what Section
		rows int
	}{what, rows})
}

// Total is the rows of all of them.
func (s *Sections) Total() (n int) {
	for _, l := range s.list {
		n += l.rows
	}
	return n
}

// Done tells whether all rows have come.
func (s *Sections) Done() bool { return s.at == len(s.list) }

// Take checks that a chunk is the next one, and counts it.
func (s *Sections) Take(h *ChunkHeader) error {
	if s.Done() {
		return fmt.Errorf("%w: a chunk behind the last", ErrFrame)
	}
	l := s.list[s.at]
	if h.Section != l.what || int(h.Start) != s.row || int(h.Count) > l.rows-s.row {
		return fmt.Errorf("%w: %d rows from %d of section %d, where row %d of %d of section %d comes next", ErrFrame, h.Count, h.Start, h.Section, s.row, l.rows, l.what)
	}
	if s.row += int(h.Count); s.row == l.rows {
		s.at, s.row = s.at+1, 0
	}
	return nil
}

// Each calls f for all chunks of at most the given rows, with the section's first row among all
// rows of this direction.
func (s *Sections) Each(rows int, f func(h ChunkHeader, at int) error) error {
	at := 0
	for _, l := range s.list {
		for from := 0; from < l.rows; from += rows {
			n := min(rows, l.rows-from)
			if err := f(ChunkHeader{Section: l.what, Start: uint32(from), Count: uint32(n)}, at+from); err != nil {
				return err
			}
		}
		at += l.rows
	}
	return nil
}

// ChunkHeader stands before the rows of a Chunk frame.
type ChunkHeader struct {
	Section Section
	Codec   uint8  // see package codec
	Start   uint32 // the first row, in its section
	Count   uint32 // at least 1
}

// ChunkSize is the size of a ChunkHeader on the wire.
const ChunkSize = 12

// ChunkRows is how many rows of so many bytes a sender puts into a chunk.
func ChunkRows(rowBytes int) int { return max(1, min(chunkRows/2, minRows/max(1, rowBytes))) }

// BeginChunk appends all of a Chunk frame but its payload of n bytes.
func BeginChunk(dst []byte, h *ChunkHeader, n int) []byte {
	dst = AppendHeader(dst, TypeChunk, ChunkSize+n)
	dst = append(dst, byte(h.Section), h.Codec, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, h.Start)
	return binary.LittleEndian.AppendUint32(dst, h.Count)
}

// ParseChunk splits a Chunk payload into header and rows.
func ParseChunk(p []byte) (ChunkHeader, []byte, error) {
	if len(p) < ChunkSize {
		return ChunkHeader{}, nil, fmt.Errorf("%w: a chunk of %d bytes", ErrFrame, len(p))
	}
	h := ChunkHeader{Section: Section(p[0]), Codec: p[1], Start: binary.LittleEndian.Uint32(p[4:]), Count: binary.LittleEndian.Uint32(p[8:])}
	if h.Section < SectionInputs || h.Section >= numSections || h.Count < 1 || h.Count > MaxRowsCount || h.Start > MaxSectionRows {
		return h, nil, fmt.Errorf("%w: %d rows from %d of section %d", ErrFrame, h.Count, h.Start, h.Section)
	}
	return h, p[ChunkSize:], nil
}

// Progress answers an Ask about a pass.
type Progress struct {
	// Ahead is how many passes come before it; 0: it is computed.
	Ahead int `json:"ahead"`
}
