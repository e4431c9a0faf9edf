package nn

import (
	"errors"
	"fmt"

	"whorl/tensor"
)

// ErrNoBackward tells that a device has no ops to go backward.
var ErrNoBackward = errors.New("this device cannot compute gradients")

// backRows is how many rows go through an MLP at once on the way back: its middle is held
// three times over. Pieces change no bits.
const backRows = 256

// BackSpace holds every buffer that [Block.Backward] needs, for up to MaxRows rows. Blocks of
// the Specs it was made for share it; it serves one goroutine at a time.
type BackSpace struct {
	// X is what a block read and D the gradient by what it put out, which becomes that by X:
	// [MaxRows][Hidden].
	X, D    tensor.Buffer
	MaxRows int

	back tensor.Backward
	all  []int32 // 0, 1, ...

	full             Workspace     // of attention
	after            tensor.Buffer // [rows][Hidden]: what the MLP reads, unless the block is parallel
	q0, k0           tensor.Buffer // before their norms
	head             tensor.Buffer // [rows][Hidden]: what attention puts out, before its norm
	dout, din        tensor.Buffer // [rows][Hidden]: gradients by what attention puts out, and by what it reads
	dq, dattn        tensor.Buffer // [rows][Heads*HeadDim]
	dk, dv           tensor.Buffer // [rows][KVHeads*HeadDim]
	totals           tensor.Buffer // [rows][2*Heads]: of attention's weights
	piece            Workspace     // of an MLP: a piece of the rows
	before, n, d     tensor.Buffer // [piece][Hidden]: what it reads, normalised, and its gradients
	act              tensor.Act    // n made ready
	gates, ups, mids []tensor.Buffer
	midActs          []tensor.Act
	routers          []tensor.Buffer // [piece][Experts]: gradients by logits
}

// NewBackSpace allocates for up to maxRows rows through blocks of the given Specs, which share
// Hidden and the sizes of heads. The error wraps [ErrNoBackward] if the device cannot go
// backward.
func NewBackSpace(dev tensor.Device, maxRows int, specs ...Spec) (*BackSpace, error) {
	back, ok := dev.(tensor.Backward)
	if !ok {
		return nil, fmt.Errorf("device %s: %w", dev.Info().Name, ErrNoBackward)
	}
	if maxRows < 1 || len(specs) == 0 {
		return nil, fmt.Errorf("workspace to go back %d rows through %d kinds of blocks: want at least 1", maxRows, len(specs))
	}
	s := specs[0]
	q, kv, piece := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim, min(maxRows, backRows)
	a := allocator{dev: dev}
	ws := &BackSpace{MaxRows: maxRows, back: back, all: make([]int32, maxRows)}
	for i := range ws.all {
		ws.all[i] = int32(i)
	}
	all := func(cols int) tensor.Buffer { return a.buffer(maxRows, cols) }
	ws.X, ws.D, ws.after, ws.dout, ws.din = all(s.Hidden), all(s.Hidden), all(s.Hidden), all(s.Hidden), all(s.Hidden)
	ws.full = Workspace{
		MaxRows: maxRows, norm: all(s.Hidden), inAct: a.act(maxRows, s.Hidden),
		q: all(q), k: all(kv), v: all(kv), attn: all(q), attnAct: a.act(maxRows, q),
	}
	ws.dq, ws.dattn, ws.dk, ws.dv, ws.totals = all(q), all(q), all(kv), all(kv), all(2*s.Heads)
	ws.piece = Workspace{MaxRows: piece, out: a.buffer(piece, s.Hidden)}
	ws.before, ws.n, ws.d, ws.act = a.buffer(piece, s.Hidden), a.buffer(piece, s.Hidden), a.buffer(piece, s.Hidden), a.act(piece, s.Hidden)
	for _, s := range specs {
		if (s.QKNorm || s.QKNormWhole) && ws.q0 == nil {
			ws.q0, ws.k0 = all(q), all(kv)
		}
		if s.OutNorm && ws.head == nil {
			ws.head = all(s.Hidden)
		}
		switch {
		case s.Experts > 0 && ofWidth(ws.routers, s.Experts) == nil:
			ws.routers = append(ws.routers, a.buffer(piece, s.Experts))
			ws.piece.router = append(ws.piece.router, a.buffer(piece, s.Experts))
		case s.Experts == 0 && ofWidth(ws.ups, s.FFN) == nil:
			ws.ups, ws.gates = append(ws.ups, a.buffer(piece, s.FFN)), append(ws.gates, a.buffer(piece, s.FFN))
			ws.mids, ws.midActs = append(ws.mids, a.buffer(piece, s.FFN)), append(ws.midActs, a.act(piece, s.FFN))
		}
	}
	if a.failed != nil {
		return nil, fmt.Errorf("workspace to go back %d rows: %w", maxRows, a.failed)
	}
	return ws, nil
}

// BackBytes is about what NewBackSpace takes for such blocks, and what going back through
// attention takes on a device of so many threads: sums for all query vectors, and for each thread
// the keys, values, scores and gradients of a split.
func BackBytes(maxRows, threads int, specs ...Spec) int64 {
	s, piece := specs[0], min(maxRows, backRows)
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	const act = 2           // an Act holds rows in 8 bits, and copies
	width := s.HeadDim + 31 // padded
	row := (9+act)*s.Hidden + (5+act)*q + 6*kv + s.Heads*(width+3)
	part, ffn := 5*s.Hidden, map[int]bool{}
	for _, s := range specs {
		if s.Experts > 0 {
			part += 2 * s.Experts
		} else if !ffn[s.FFN] {
			ffn[s.FFN] = true
			part += (3 + act) * s.FFN
		}
	}
	const vectors = 96 // of a chunk, about
	group := s.Heads / s.KVHeads
	split := tensor.AttendSplit*(5*width+4*max(vectors, group)+group) + 4*max(vectors, group)*width
	return 4 * (int64(maxRows)*int64(row) + int64(threads)*int64(split) + int64(piece)*int64(part))
}

// ReserveLoRA makes room for what adapters add to blocks of Spec s.
func (ws *BackSpace) ReserveLoRA(dev tensor.Device, s Spec, loras ...*LoRA) error {
	for _, part := range []*Workspace{&ws.full, &ws.piece} {
		if part.out == nil { // which this pass does not need
			part.out = ws.after
		}
		s.Ungated = true // gates lie apart here anyway
		if err := part.ReserveLoRA(dev, s, loras...); err != nil {
			return err
		}
	}
	return nil
}

// allocator makes buffers, and keeps the first error.
type allocator struct {
	dev    tensor.Device
	failed error
}

func (a *allocator) buffer(rows, cols int) tensor.Buffer {
	b, err := a.dev.NewBuffer(rows, cols)
	if a.failed == nil {
		a.failed = err
	}
	return b
}

func (a *allocator) act(rows, cols int) tensor.Act {
	b, err := a.dev.NewAct(rows, cols)
	if a.failed == nil {
		a.failed = err
	}
	return b
}
