package server

import (
	"fmt"

	"whorl/server/kvcache"
	"whorl/swarm"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// branch says where the sequences of a session stand: what the log has behind its fork.
// The zero value says that there is one sequence.
type branch struct {
	beams wire.Beams
	step  int // first row of the last step, if beams.N is not 0
}

// follows tells whether rows may come after those that ended in a branch at row next.
func (b *branch) follows(h *wire.RowsHeader, next int) error {
	n, start := h.Beams.N, int(h.Start)
	if b.beams.N == 0 {
		if n > 0 && int(h.Beams.Fork) != next && start <= next {
			return fmt.Errorf("%w: sequences part at row %d, and there are %d of one", wire.ErrFrame, h.Beams.Fork, next)
		}
		return nil
	}
	switch {
	case n != b.beams.N || h.Beams.Fork != b.beams.Fork:
		return fmt.Errorf("%w: rows of %d sequences that part at %d, after rows of %d that part at %d", wire.ErrFrame, n, h.Beams.Fork, b.beams.N, b.beams.Fork)
	case h.Beams.Step(start) == b.step && h.Beams.Parents != b.beams.Parents:
		return fmt.Errorf("%w: the sequences of row %d have other parents than before", wire.ErrFrame, start)
	}
	return nil
}

// after is the branch once rows like these have come.
func after(h *wire.RowsHeader) branch {
	if h.Beams.N == 0 {
		return branch{}
	}
	return branch{beams: h.Beams, step: h.Beams.Step(int(h.Start))}
}

// partLocked prepares the cache for the next rows of a frame. Sequences take over
// the pages of their parents at the first row of a step. It appends what the rows write to
// to views, one for each row, and the pages to copy before that.
func (x *session) partLocked(f *frame, rows int, views []tensor.KVView, copies *pageCopies) []tensor.KVView {
	beams := &f.beams
	row := f.start + f.done
	pos, step := beams.Position(row), beams.Step(row)
	if x.tables == nil {
		x.tables = kvcache.NewTables(x.pages, x.sequences)
	}
	if x.branch.beams.N == 0 || x.branch.step != step {
		x.tables.Part(beams.Parents[:beams.N], pos)
		x.branch = branch{beams: *beams, step: step}
	}
	for seq := row - step; seq < row-step+rows; seq++ {
		if own, shared, copied := x.tables.Write(seq, pos); copied {
			copies.dst, copies.src = append(copies.dst, own), append(copies.src, shared)
		}
		v := x.view
		v.Pages = x.tables.Pages(seq)
		views = append(views, v)
	}
	return views
}

// pageCopies are the pages to copy before an iteration.
type pageCopies struct{ dst, src []int32 }

// rollBackLocked forgets computed rows from the given one on. What lies between the
// fork and the last step cannot be had back: the sequences have written over it. The
// session then goes back to the fork.
func (x *session) rollBackLocked(row int) {
	b := &x.branch
	fork := int(b.beams.Fork)
	if b.beams.N > 0 && row > fork && row >= b.step || b.beams.N == 0 {
		x.length = min(x.length, row)
		return
	}
	x.length = min(x.length, row, fork)
	x.branch = branch{}
	x.tables.Join(fork)
	x.view.Pages = x.tables.Pages(0)
}

// positionLocked is how many positions are computed.
func (x *session) positionLocked() int {
	if b := &x.branch.beams; x.length > int(b.Fork) {
		return b.Position(x.length-1) + 1
	}
	return x.length
}

// checkSequences refuses numbers of sequences that cannot be.
func checkSequences(o *wire.Open) error {
	if o.Sequences < 0 || o.Sequences > wire.MaxBeams {
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "sequences %d: want at most %d", o.Sequences, wire.MaxBeams)
	}
	if n := max(1, o.Sequences); o.MaxLength < 1 || o.MaxLength > wire.MaxPosition/n {
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "max_length %d: want 1 to %d for %d sequences", o.MaxLength, wire.MaxPosition/n, n)
	}
	return nil
}
