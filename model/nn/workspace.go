package nn

import (
	"fmt"

	"whorl/tensor"
)

// Workspace holds every buffer that a block's forward pass needs, for up to MaxRows rows.
// Blocks of one Spec share one workspace; a workspace serves one goroutine at a time.
type Workspace struct {
	// X is where a caller may keep the rows that blocks work on: [MaxRows][Hidden].
	// Blocks take it as an argument and do not touch it otherwise.
	X       tensor.Buffer
	MaxRows int

	norm           tensor.Buffer // [rows][Hidden]
	q, attn        tensor.Buffer // [rows][Heads*HeadDim]
	k, v           tensor.Buffer // [rows][KVHeads*HeadDim]
	ffn            tensor.Buffer // [rows][FFN]
	inAct, attnAct tensor.Act    // norm and attn made ready
	ffnAct         tensor.Act
	products       [3]tensor.Product // scratch, so that a step allocates nothing
}

// NewWorkspace allocates for up to maxRows rows a step.
func NewWorkspace(dev tensor.Device, s Spec, maxRows int) (*Workspace, error) {
	if maxRows < 1 {
		return nil, fmt.Errorf("workspace of %d rows: want at least 1", maxRows)
	}
	ws := &Workspace{MaxRows: maxRows}
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	for _, b := range []struct {
		dst  *tensor.Buffer
		cols int
	}{{&ws.X, s.Hidden}, {&ws.norm, s.Hidden}, {&ws.q, q}, {&ws.attn, q}, {&ws.k, kv}, {&ws.v, kv}, {&ws.ffn, s.FFN}} {
		buf, err := dev.NewBuffer(maxRows, b.cols)
		if err != nil {
			return nil, fmt.Errorf("workspace of %d rows: %w", maxRows, err)
		}
		*b.dst = buf
	}
	for _, a := range []struct {
		dst  *tensor.Act
		cols int
	}{{&ws.inAct, s.Hidden}, {&ws.attnAct, q}, {&ws.ffnAct, s.FFN}} {
		act, err := dev.NewAct(maxRows, a.cols)
		if err != nil {
			return nil, fmt.Errorf("workspace of %d rows: %w", maxRows, err)
		}
		*a.dst = act
	}
	return ws, nil
}
