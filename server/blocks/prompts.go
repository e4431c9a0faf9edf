package blocks

import (
	"fmt"

	"whorl/tensor"
)

// Prompts are what a session adds to the inputs of blocks at its first positions. They are
// immutable and may be used by several sequences.
type Prompts struct {
	from, to int // blocks
	rows     int // positions
	table    tensor.Buffer
}

// LoadPrompts puts prompts of blocks [from, to) on the device: values is [blocks][rows][hidden].
// Safe for concurrent use, also with Step.
func (s *Span) LoadPrompts(values []float32, from, to, rows int) (*Prompts, error) {
	switch {
	case from < s.start || from >= to || to > s.start+len(s.infos):
		return nil, fmt.Errorf("prompts of blocks %d:%d: %d:%d are loaded", from, to, s.start, s.start+len(s.infos))
	case rows < 1 || len(values)%(to-from) != 0 || len(values)/(to-from) != rows*s.hidden:
		return nil, fmt.Errorf("%d values of prompts for %d blocks and %d positions of %d", len(values), to-from, rows, s.hidden)
	}
	table, err := s.dev.NewBuffer((to-from)*rows, s.hidden)
	if err != nil {
		return nil, fmt.Errorf("prompts of blocks %d:%d: %w", from, to, err)
	}
	s.dev.Upload(table, 0, values)
	return &Prompts{from: from, to: to, rows: rows, table: table}, s.dev.Sync()
}

// Bytes is the memory that the prompts hold on the device.
func (p *Prompts) Bytes() int64 { return 4 * int64(p.table.Rows()) * int64(p.table.Cols()) }

// promptedRows are the rows of a step at positions that have prompts, of one sequence.
type promptedRows struct {
	*Prompts
	at  []int32 // places in the batch
	pos []int32 // their positions
	row []int32 // scratch: of the table
}

// prompted finds the rows of a batch that get prompts in blocks [from, to).
func prompted(b *tensor.Batch, prompts []*Prompts, from, to int) ([]promptedRows, error) {
	if prompts == nil {
		return nil, nil
	}
	if len(prompts) != len(b.Seqs) {
		return nil, fmt.Errorf("step of %d sequences with the prompts of %d", len(b.Seqs), len(prompts))
	}
	var out []promptedRows
	last := int32(-1)
	for i, r := range b.Rows {
		p := prompts[r.Seq]
		if p == nil || int(r.Pos) >= p.rows {
			continue
		}
		if from < p.from || to > p.to {
			return nil, fmt.Errorf("step through blocks %d:%d with prompts for %d:%d", from, to, p.from, p.to)
		}
		if r.Seq != last {
			out, last = append(out, promptedRows{Prompts: p}), r.Seq
		}
		n := &out[len(out)-1]
		n.at, n.pos = append(n.at, int32(i)), append(n.pos, r.Pos)
	}
	return out, nil
}

// add adds the prompts of a block to its input in the span's workspace.
func (p *promptedRows) add(s *Span, block int) {
	p.row = p.row[:0]
	for _, pos := range p.pos {
		p.row = append(p.row, int32((block-p.from)*p.rows)+pos)
	}
	s.ws.AddRows(s.dev, s.ws.X, p.table, p.row, p.at)
}
