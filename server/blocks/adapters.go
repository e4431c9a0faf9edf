package blocks

import (
	"fmt"

	"whorl/model/lora"
	"whorl/model/nn"
	"whorl/tensor"
)

// Adapter names a LoRA adapter of a Loader: what its folder is called, and a digest of all
// that alters results.
type Adapter struct{ Name, Digest string }

// Adapters lists those that every loaded span holds. Their places are what Step takes.
func (l *Loader) Adapters() []Adapter {
	list := make([]Adapter, len(l.opt.Adapters))
	for i, a := range l.opt.Adapters {
		list[i] = Adapter{Name: a.Name, Digest: a.Digest}
	}
	return list
}

// sizeAdapters adds to the sizes what adapters take: of each, its largest block.
func (l *Loader) sizeAdapters() error {
	for _, a := range l.opt.Adapters {
		largest, at := int64(-1), 0
		for i := range l.ck.Config.Layers {
			if n := a.BlockBytes(i); n > largest {
				largest, at = n, i
			}
		}
		// As a device holds it, which is known only once it was loaded.
		part, err := a.LoadBlock(l.dev, at)
		if err != nil {
			return err
		}
		if part != nil {
			l.sizes.Adapters += part.Bytes()
		}
	}
	if len(l.opt.Adapters) > 0 {
		var room int64
		for i := range l.ck.Config.Layers {
			room = max(room, l.ck.Config.Block(i).LoRABytes(l.opt.StepRows))
		}
		l.sizes.Workspace += room
	}
	return nil
}

// adapters are those of a span, and the rows of a step that use them.
type adapters struct {
	parts [][]*nn.LoRA // by adapter and block of the span; nil where nothing is changed
	rows  [][]int32    // by adapter, of the present step
	now   []nn.Adapted // scratch, so that a step allocates nothing
}

func newAdapters(n, blocks, stepRows int) adapters {
	a := adapters{parts: make([][]*nn.LoRA, n), rows: make([][]int32, n), now: make([]nn.Adapted, 0, n)}
	for i := range n {
		a.parts[i] = make([]*nn.LoRA, blocks)
		a.rows[i] = make([]int32, 0, stepRows)
	}
	return a
}

// load puts what adapters add to one block, number i of a span that begins at start, on
// the device, and gives the memory it takes. Safe for different i at the same time.
func (a *adapters) load(dev tensor.Device, from []*lora.Adapter, start, i int) (int64, error) {
	var sum int64
	for n, f := range from {
		part, err := f.LoadBlock(dev, start+i)
		if err != nil {
			return 0, err
		}
		if part != nil {
			a.parts[n][i] = part
			sum += part.Bytes()
		}
	}
	return sum, nil
}

// reserve makes room for adapters in a span's workspace.
func (a *adapters) reserve(s *Span) error {
	for _, parts := range a.parts {
		for i, part := range parts {
			if part == nil {
				continue
			}
			if err := s.ws.ReserveLoRA(s.dev, s.blocks[i].Spec(), part); err != nil {
				return err
			}
		}
	}
	return nil
}

// group notes which rows use which adapter.
func (a *adapters) group(b *tensor.Batch, use []int) error {
	for i := range a.rows {
		a.rows[i] = a.rows[i][:0]
	}
	if use == nil {
		return nil
	}
	if len(use) != len(b.Seqs) {
		return fmt.Errorf("step of %d sequences with the adapters of %d", len(b.Seqs), len(use))
	}
	for i, r := range b.Rows {
		switch n := use[r.Seq]; {
		case n >= len(a.rows):
			return fmt.Errorf("step with adapter %d: there are %d", n, len(a.rows))
		case n >= 0:
			a.rows[n] = append(a.rows[n], int32(i))
		}
	}
	return nil
}

// of lists what adapters add to rows of the present step in block i of the span.
func (a *adapters) of(i int) []nn.Adapted {
	a.now = a.now[:0]
	for n, rows := range a.rows {
		if len(rows) > 0 && a.parts[n][i] != nil {
			a.now = append(a.now, nn.Adapted{LoRA: a.parts[n][i], Rows: rows})
		}
	}
	return a.now
}
