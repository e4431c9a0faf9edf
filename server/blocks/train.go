package blocks

import (
	"errors"
	"fmt"
	"slices"

	"whorl/model/nn"
	"whorl/tensor"
)

// ErrTraining is wrapped by errors of a [Training] that does not fit itself or the span: the
// caller's fault, whoever it asks.
var ErrTraining = errors.New("bad training request")

// ErrNoBackward is wrapped if the device cannot compute gradients.
var ErrNoBackward = nn.ErrNoBackward

// Training is the rows of one request: whole sequences, each from position 0 on, that see
// themselves and what is before them. There is no session and no cache.
//
// The arithmetic is that of a session with float32 activations, rows between blocks and cache:
// rounding has no gradient.
type Training struct {
	Lengths    []int     // rows of each sequence; those of a batch follow each other
	PromptRows int       // positions, from 0 on, of every sequence that prompts are added to; 0: none
	Prompts    []float32 // [blocks][sequences][PromptRows][hidden]: added to each block's input; nil if there are none
	Adapter    int       // as the Loader lists them; -1: none. It is frozen, and differentiated through
	// Length is a session's budget, which fixes rotations that depend on it; 0: each sequence has
	// its own length.
	Length int
	// Yield is called between pieces of work, which take the time of up to minTrainRows or the
	// longest sequence's rows through one block. It may wait; an error ends the call and is its result. nil: never.
	Yield func() error
}

const (
	// minTrainRows is how many rows a Trainer takes at once at least: weights are unpacked
	// once for all of them.
	minTrainRows = 256
	// trainPieceRows is how many rows go forward at once.
	trainPieceRows = 256
	// sparePages are pages beyond those of the longest sequence, for the ends of shorter ones.
	sparePages = 64
)

// Trainer computes forward and backward through the blocks of a span, which it keeps alive. It
// has buffers of its own, so it may run beside Span.Step; one goroutine at a time uses it.
type Trainer struct {
	span    *Span
	blocks  []*nn.Block // nil where the span had let go of one
	longest int
	rows    int // taken at once
	pages   int
	ws      *nn.Workspace // to go forward
	back    *nn.BackSpace
	kv      tensor.KV
	ropes   map[int]tensor.Rope // of sessions of a length
	all     []int32             // 0, 1, ...

	adapters [][]*nn.LoRA // those that the span held when this was made, by place and block
}

// NewTrainer makes room for sequences of up to longest rows. Batches of more rows are taken
// in groups of whole sequences.
func (s *Span) NewTrainer(longest int) (*Trainer, error) {
	if longest < 1 {
		return nil, fmt.Errorf("training with sequences of %d rows, want at least 1", longest)
	}
	t := &Trainer{span: s, blocks: s.blocks, longest: longest, ropes: map[int]tensor.Rope{}}
	t.rows, t.pages = trainRoom(longest)
	var specs []nn.Spec
	for _, b := range t.blocks {
		if b != nil {
			specs = append(specs, b.Spec())
		}
	}
	var err error
	if t.ws, err = nn.NewWorkspace(s.dev, min(t.rows, trainPieceRows), specs...); err != nil {
		return nil, err
	}
	if t.back, err = nn.NewBackSpace(s.dev, t.rows, specs...); err != nil {
		return nil, err
	}
	if t.kv, err = s.dev.NewKV(s.ck.Config.KVSpec(1, t.pages, tensor.F32)); err != nil {
		return nil, fmt.Errorf("keys and values of %d rows: %w", t.rows, err)
	}
	s.turn.Lock()
	for _, parts := range s.adapters.parts {
		t.adapters = append(t.adapters, slices.Clone(parts))
	}
	s.turn.Unlock()
	for _, parts := range t.adapters {
		for i, part := range parts {
			if part == nil || t.blocks[i] == nil {
				continue
			}
			spec := t.blocks[i].Spec()
			if err := errors.Join(t.ws.ReserveLoRA(s.dev, spec, part), t.back.ReserveLoRA(s.dev, spec, part)); err != nil {
				return nil, err
			}
		}
	}
	t.all = make([]int32, t.ws.MaxRows)
	for i := range t.all {
		t.all[i] = int32(i)
	}
	return t, nil
}

// trainRoom is how many rows a Trainer takes at once, and pages of one layer.
func trainRoom(longest int) (rows, pages int) {
	rows = max(longest, minTrainRows)
	return rows, (rows+tensor.PageTokens-1)/tensor.PageTokens + sparePages
}

// TrainerBytes is about the memory of a Trainer.
func (l *Loader) TrainerBytes(longest int) int64 {
	c := &l.ck.Config
	rows, pages := trainRoom(longest)
	specs := make([]nn.Spec, c.Layers)
	for i := range specs {
		specs[i] = c.Block(i)
	}
	kv := 2 * 4 * int64(pages) * tensor.PageTokens * int64(c.KVHeads) * int64(c.HeadDim)
	var adapted int64
	if len(l.Adapters()) > 0 {
		for _, s := range specs { // to go forward, and twice a piece to go back
			adapted = max(adapted, s.LoRABytes(min(rows, trainPieceRows))+2*s.LoRABytes(0))
		}
	}
	return nn.BackBytes(rows, l.dev.Info().Threads, specs...) + workspaceBytes(c, min(rows, trainPieceRows)) + kv + adapted
}

// TrainingBytes is what Backward through so many blocks takes beside the Trainer and the
// caller's slices, unless it is given the inputs: those of all blocks for the rows that are taken at once.
func (l *Loader) TrainingBytes(longest, blocks int) int64 {
	rows, _ := trainRoom(longest)
	return 4 * int64(rows) * int64(l.ck.Config.Hidden) * int64(blocks)
}

// group is sequences that are taken together, and where their rows begin in the request.
type group struct {
	seqs  []int // their places in Training.Lengths
	first int   // row
	rows  int
	batch tensor.Batch
}

// Forward computes what blocks [from, to) make of in, [rows][hidden], and writes it to out,
// which may be in. inputs, if not nil, is [blocks][rows][hidden] and gets what each block
// read: its input with the prompts.
func (t *Trainer) Forward(r *Training, from, to int, in, out, inputs []float32) error {
	h, rows := t.span.hidden, len(in)/t.span.hidden
	if err := t.check(r, from, to, rows, len(in), len(out)); err != nil {
		return err
	}
	if inputs != nil && len(inputs) != (to-from)*len(in) {
		return fmt.Errorf("%w: room for %d values of inputs, want %d", ErrTraining, len(inputs), (to-from)*len(in))
	}
	return t.groups(r, func(g *group) error {
		x := out[g.first*h : (g.first+g.rows)*h]
		copy(x, in[g.first*h:])
		for b := from; b < to; b++ {
			t.prompt(r, g, b-from, x)
			if inputs != nil {
				copy(inputs[((b-from)*rows+g.first)*h:][:len(x)], x)
			}
			if err := t.forward(r, g, b, x); err != nil {
				return err
			}
		}
		return nil
	})
}

// Backward computes the gradients of a loss by in and by the prompts, whose gradient by what
// Forward puts out is dout. in, dout and din are [rows][hidden], din may be dout; dprompts is as
// Training.Prompts, of each sequence for itself. inputs is what Forward wrote there, or nil:
// it is computed again.
func (t *Trainer) Backward(r *Training, from, to int, in, inputs, dout, din, dprompts []float32) error {
	h, rows := t.span.hidden, len(in)/t.span.hidden
	if err := t.check(r, from, to, rows, len(in), len(dout), len(din)); err != nil {
		return err
	}
	switch {
	case inputs != nil && len(inputs) != (to-from)*len(in):
		return fmt.Errorf("%w: %d values of inputs, want %d", ErrTraining, len(inputs), (to-from)*len(in))
	case len(dprompts) != len(r.Prompts):
		return fmt.Errorf("%w: room for %d values of gradients by %d of prompts", ErrTraining, len(dprompts), len(r.Prompts))
	}
	var scratch []float32
	return t.groups(r, func(g *group) error {
		n := g.rows * h
		read := func(b int) []float32 { return inputs[((b-from)*rows+g.first)*h:][:n] }
		if inputs == nil {
			if len(scratch) < (to-from)*n {
				scratch = make([]float32, (to-from)*n)
			}
			read = func(b int) []float32 { return scratch[(b-from)*n:][:n] }
			copy(read(from), in[g.first*h:])
			for b := from; b < to; b++ {
				t.prompt(r, g, b-from, read(b))
				if b+1 == to {
					break
				}
				copy(read(b+1), read(b))
				if err := t.forward(r, g, b, read(b+1)); err != nil {
					return err
				}
			}
		}
		grad := din[g.first*h:][:n]
		t.span.dev.Upload(t.back.D, 0, dout[g.first*h:][:n])
		for b := to - 1; b >= from; b-- {
			t.span.dev.Upload(t.back.X, 0, read(b))
			t.blocks[b-t.span.start].Backward(t.back, &g.batch, t.kv, t.adapter(r, b))
			if b == from || r.PromptRows > 0 {
				t.span.dev.Download(grad, t.back.D, 0)
				t.promptBack(r, g, b-from, grad, dprompts)
			}
			if err := t.pause(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// check says what is wrong with a request; sizes are those of its rows.
func (t *Trainer) check(r *Training, from, to, rows int, sizes ...int) error {
	s, sum := t.span, 0
	if from < s.start || from >= to || to > s.start+len(t.blocks) {
		return fmt.Errorf("%w: blocks %d:%d, loaded are %d:%d", ErrTraining, from, to, s.start, s.start+len(t.blocks))
	}
	for b := from; b < to; b++ {
		if t.blocks[b-s.start] == nil {
			return fmt.Errorf("%w: block %d is no longer loaded", ErrTraining, b)
		}
	}
	for i, n := range r.Lengths {
		switch {
		case n < 1 || n > t.longest:
			return fmt.Errorf("%w: sequence %d has %d rows, want 1 to %d", ErrTraining, i, n, t.longest)
		case n < r.PromptRows:
			return fmt.Errorf("%w: prompts for %d positions, but sequence %d has %d", ErrTraining, r.PromptRows, i, n)
		case r.Length != 0 && n > r.Length:
			return fmt.Errorf("%w: sequence %d has %d rows, more than the %d of its session", ErrTraining, i, n, r.Length)
		}
		sum += n
	}
	for _, n := range sizes {
		if sum == 0 || n != sum*s.hidden || rows != sum {
			return fmt.Errorf("%w: sequences of %d rows in all with %d values, want %d", ErrTraining, sum, n, sum*s.hidden)
		}
	}
	switch want := (to - from) * len(r.Lengths) * r.PromptRows * s.hidden; {
	case r.PromptRows < 0 || len(r.Prompts) != want:
		return fmt.Errorf("%w: %d values of prompts for %d blocks, %d sequences and %d positions, want %d", ErrTraining, len(r.Prompts), to-from, len(r.Lengths), r.PromptRows, want)
	case r.Adapter < -1 || r.Adapter >= len(t.adapters):
		return fmt.Errorf("%w: adapter %d: there are %d", ErrTraining, r.Adapter, len(t.adapters))
	}
	return nil
}

// groups calls do for each group of sequences.
func (t *Trainer) groups(r *Training, do func(g *group) error) error {
	for i, row := 0, 0; i < len(r.Lengths); {
		g := &group{first: row}
		pages := 0
		for ; i < len(r.Lengths); i++ {
			n := r.Lengths[i]
			need := (n + tensor.PageTokens - 1) / tensor.PageTokens
			if len(g.seqs) > 0 && (g.rows+n > t.rows || pages+need > t.pages) {
				break
			}
			view := tensor.KVView{}
			for range need {
				view.Pages = append(view.Pages, int32(pages))
				pages++
			}
			var err error
			if view.Rope, err = t.rope(r, n); err != nil {
				return err
			}
			for pos := range n {
				g.batch.Rows = append(g.batch.Rows, tensor.Row{Seq: int32(len(g.seqs)), Pos: int32(pos)})
			}
			g.batch.Seqs, g.seqs, g.rows = append(g.batch.Seqs, view), append(g.seqs, i), g.rows+n
		}
		row += g.rows
		if err := do(g); err != nil {
			return err
		}
	}
	return nil
}

// maxRopes bounds how many rotations are kept for other requests.
const maxRopes = 64

// rope is the rotation of a sequence, nil where the model's does not depend on its length.
func (t *Trainer) rope(r *Training, length int) (tensor.Rope, error) {
	if r.Length != 0 {
		length = r.Length
	}
	if rope, ok := t.ropes[length]; ok {
		return rope, nil
	}
	rope, err := t.span.SessionRope(length)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTraining, err)
	}
	if len(t.ropes) == maxRopes {
		clear(t.ropes)
	}
	t.ropes[length] = rope
	return rope, nil
}

func (t *Trainer) adapter(r *Training, block int) *nn.LoRA {
	if r.Adapter < 0 {
		return nil
	}
	return t.adapters[r.Adapter][block-t.span.start]
}

// prompt adds the prompts of one block to its input, the rows of a group.
func (t *Trainer) prompt(r *Training, g *group, block int, x []float32) {
	t.prompts(r, g, block, x, func(row, at []float32) {
		for i, v := range at {
			row[i] += v
		}
	}, r.Prompts)
}

// promptBack takes the gradients by the prompts of one block from those by its input.
func (t *Trainer) promptBack(r *Training, g *group, block int, grad, dprompts []float32) {
	t.prompts(r, g, block, grad, func(row, at []float32) { copy(at, row) }, dprompts)
}

// prompts calls do with the rows of x and of a table of prompts that belong together.
func (t *Trainer) prompts(r *Training, g *group, block int, x []float32, do func(row, at []float32), table []float32) {
	if r.PromptRows == 0 {
		return
	}
	size := r.PromptRows * t.span.hidden
	for _, i := range g.seqs {
		do(x[:size], table[(block*len(r.Lengths)+i)*size:][:size])
		x = x[r.Lengths[i]*t.span.hidden:]
	}
}

// forward advances the rows of a group through a block, in place.
func (t *Trainer) forward(r *Training, g *group, block int, x []float32) error {
	s, h, lora := t.span, t.span.hidden, t.adapter(r, block)
	for at := 0; at < g.rows; at += t.ws.MaxRows {
		n := min(t.ws.MaxRows, g.rows-at)
		rows := x[at*h : (at+n)*h]
		batch := tensor.Batch{Rows: g.batch.Rows[at : at+n], Seqs: g.batch.Seqs}
		var adapted []nn.Adapted
		if lora != nil {
			adapted = []nn.Adapted{{LoRA: lora, Rows: t.all[:n]}}
		}
		s.dev.Upload(t.ws.X, 0, rows)
		t.blocks[block-s.start].Forward(t.ws, &batch, t.ws.X, t.kv, 0, tensor.ActF32, adapted...)
		s.dev.Download(rows, t.ws.X, 0)
	}
	return t.pause(r)
}

// pause reports what went wrong on the device, and lets others go first.
func (t *Trainer) pause(r *Training) error {
	if err := t.span.dev.Sync(); err != nil {
		return err
	}
	if r.Yield == nil {
		return nil
	}
	return r.Yield()
}
