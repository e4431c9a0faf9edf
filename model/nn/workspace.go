package nn

import (
	"fmt"
	"slices"

	"whorl/tensor"
)

// Workspace holds every buffer that a block's forward pass needs, for up to MaxRows rows.
// Blocks of the Specs it was made for share it; it serves one goroutine at a time.
type Workspace struct {
	// X is where a caller may keep the rows that blocks work on: [MaxRows][Hidden].
	// Blocks take it as an argument and do not touch it otherwise.
	X       tensor.Buffer
	MaxRows int

	norm    tensor.Buffer // [rows][Hidden]: what a projection reads
	out     tensor.Buffer // [rows][Hidden]: what attention or MLP put out, where more happens to it
	q, attn tensor.Buffer // [rows][Heads*HeadDim]
	k, v    tensor.Buffer // [rows][KVHeads*HeadDim]
	inAct   tensor.Act    // [rows][Hidden]: norm made ready
	mlpNorm tensor.Buffer // [rows][Hidden]: norm of the MLP in parallel blocks with two norms
	mlpAct  tensor.Act    // mlpNorm made ready
	attnAct tensor.Act    // attn made ready

	inner    []source           // the middle of an MLP, [rows][FFN], one for each width
	router   []tensor.Buffer    // [rows][Experts], one for each number of experts
	lora     loraSpace          // see ReserveLoRA
	experts  tensor.ExpertsSpec // scratch
	products [3]tensor.Product  // scratch, so that a step allocates nothing
}

// NewWorkspace allocates for steps of up to maxRows rows through blocks of the given Specs,
// which share Hidden and the sizes of heads.
func NewWorkspace(dev tensor.Device, maxRows int, specs ...Spec) (*Workspace, error) {
	if maxRows < 1 || len(specs) == 0 {
		return nil, fmt.Errorf("workspace of %d rows for %d kinds of blocks: want at least 1", maxRows, len(specs))
	}
	ws := &Workspace{MaxRows: maxRows}
	var failed error
	buffer := func(cols int) tensor.Buffer {
		b, err := dev.NewBuffer(maxRows, cols)
		if failed == nil {
			failed = err
		}
		return b
	}
	act := func(cols int) tensor.Act {
		a, err := dev.NewAct(maxRows, cols)
		if failed == nil {
			failed = err
		}
		return a
	}
	s := specs[0]
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	ws.X, ws.norm = buffer(s.Hidden), buffer(s.Hidden)
	ws.q, ws.attn, ws.k, ws.v = buffer(q), buffer(q), buffer(kv), buffer(kv)
	ws.inAct, ws.attnAct = act(s.Hidden), act(q)
	for _, s := range specs {
		if s.OutNorm && ws.out == nil {
			ws.out = buffer(s.Hidden)
		}
		if s.Parallel && !s.OneNorm && ws.mlpAct == nil {
			ws.mlpNorm, ws.mlpAct = buffer(s.Hidden), act(s.Hidden)
		}
		if s.Experts > 0 {
			if ws.logits(s.Experts) == nil {
				ws.router = append(ws.router, buffer(s.Experts))
			}
		} else if !slices.ContainsFunc(ws.inner, func(i source) bool { return i.buf.Cols() == s.FFN }) {
			ws.inner = append(ws.inner, source{buffer(s.FFN), act(s.FFN)})
		}
		if failed != nil {
			return nil, fmt.Errorf("workspace of %d rows: %w", maxRows, failed)
		}
	}
	return ws, nil
}

// ffn is the middle of an MLP of the given width.
func (ws *Workspace) ffn(width int) source {
	for _, i := range ws.inner {
		if i.buf.Cols() == width {
			return i
		}
	}
	panic("nn: a block of another Spec than the workspace was made for")
}

// logits is room for a router's; nil if there is none.
func (ws *Workspace) logits(experts int) tensor.Buffer {
	for _, b := range ws.router {
		if b.Cols() == experts {
			return b
		}
	}
	return nil
}

// AddRows adds rows of src, in the order given, to as many different rows of dst, between two
// blocks. src is as wide as a block's rows.
func (ws *Workspace) AddRows(dev tensor.Device, dst, src tensor.Buffer, from, to []int32) {
	dev.Gather(ws.norm, src, from)
	dev.Add(dst, ws.norm, to, len(to), 1)
}
