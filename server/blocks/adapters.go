package blocks

import (
	"context"
	"fmt"
	"slices"

	"whorl/model/lora"
	"whorl/model/nn"
	"whorl/tensor"
)

// Adapter names a LoRA adapter of a Loader: what its folder is called, and a digest of all
// that alters results.
type Adapter struct{ Name, Digest string }

// AdapterFile is an open adapter, as a Loader takes it.
type AdapterFile = lora.Adapter

// Adapters lists those that every loaded span holds. Their places are what Step takes; the place
// of one that was given up has no name.
func (l *Loader) Adapters() []Adapter {
	files := l.files()
	list := make([]Adapter, len(files))
	for i, a := range files {
		if a != nil {
			list[i] = Adapter{Name: a.Name, Digest: a.Digest}
		}
	}
	return list
}

// files are the adapters by their places, nil where one was given up.
func (l *Loader) files() []*lora.Adapter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.opt.Adapters)
}

// AddAdapter has a span hold another adapter, beside its steps, and so all that are loaded after.
// fits hears how much more memory that takes, and may refuse it. use is its place. The caller
// closes a once RemoveAdapter has returned, or after the last Load. Not together with Load.
func (l *Loader) AddAdapter(ctx context.Context, s *Span, a *lora.Adapter, fits func(bytes int64) error) (use int, err error) {
	parts, held, largest := make([]*nn.LoRA, len(s.blocks)), int64(0), int64(0)
	for i := range parts {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		part, err := a.LoadBlock(l.dev, s.start+i)
		if err != nil {
			return 0, err
		}
		if part != nil {
			parts[i] = part
			held += part.Bytes()
			largest = max(largest, part.Bytes())
		}
	}
	l.mu.Lock()
	files := l.opt.Adapters
	use = slices.Index(files, nil)
	room := int64(0) // of the workspace, which all adapters share
	if len(files) == 0 {
		room = l.loraRoom()
	}
	l.mu.Unlock()
	if err := fits(held + room); err != nil {
		return 0, err
	}
	if use < 0 {
		use = len(files)
	}
	if err := s.adapt(use, parts); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if use == len(l.opt.Adapters) {
		l.opt.Adapters = append(l.opt.Adapters, nil)
	}
	l.opt.Adapters[use] = a
	l.added[use] = largest
	l.sizes.Adapters += largest
	l.sizes.Workspace += room
	return use, nil
}

// RemoveAdapter gives an adapter up: no step of the span uses it any more. held is the memory that
// it took there. Not together with Load.
func (l *Loader) RemoveAdapter(s *Span, use int) (held int64) {
	s.turn.Lock()
	for i, part := range s.adapters.parts[use] {
		if part != nil {
			held += part.Bytes()
			s.adapters.parts[use][i] = nil
		}
	}
	s.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes.Adapters -= l.added[use]
	delete(l.added, use)
	l.opt.Adapters[use] = nil
	return held
}

// loraRoom is what a step with adapters needs of the workspace.
func (l *Loader) loraRoom() (room int64) {
	for i := range l.ck.Config.Layers {
		room = max(room, l.ck.Config.Block(i).LoRABytes(l.opt.StepRows))
	}
	return room
}

// sizeAdapters adds to the sizes what adapters take: of each, its largest block.
func (l *Loader) sizeAdapters() error {
	for use, a := range l.opt.Adapters {
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
			l.added[use] = part.Bytes()
			l.sizes.Adapters += part.Bytes()
		}
	}
	if len(l.opt.Adapters) > 0 {
		l.sizes.Workspace += l.loraRoom()
	}
	return nil
}

// adapters are those of a span, and the rows of a step that use them.
type adapters struct {
	parts [][]*nn.LoRA // by adapter and block of the span; nil where nothing is changed
	rows  [][]int32    // by adapter, of the present step
	now   []nn.Adapted // scratch, so that a step allocates nothing

	stepRows int
}

func newAdapters(n, blocks, stepRows int) adapters {
	a := adapters{stepRows: stepRows}
	for range n {
		a.grow(make([]*nn.LoRA, blocks))
	}
	return a
}

// grow makes a place for another adapter.
func (a *adapters) grow(parts []*nn.LoRA) {
	a.parts = append(a.parts, parts)
	a.rows = append(a.rows, make([]int32, 0, a.stepRows))
	a.now = make([]nn.Adapted, 0, len(a.parts))
}

// adapt puts what an adapter adds to each block into a place, between two steps.
func (s *Span) adapt(use int, parts []*nn.LoRA) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	for i, part := range parts {
		if part == nil {
			continue
		}
		if err := s.ws.ReserveLoRA(s.dev, s.blocks[i].Spec(), part); err != nil {
			return err
		}
	}
	if use == len(s.adapters.parts) {
		s.adapters.grow(parts)
	}
	s.adapters.parts[use] = parts
	return nil
}

// load puts what adapters add to one block, number i of a span that begins at start, on
// the device, and gives the memory it takes. Safe for different i at the same time.
func (a *adapters) load(dev tensor.Device, from []*lora.Adapter, start, i int) (int64, error) {
	var sum int64
	for n, f := range from {
		if f == nil {
			continue
		}
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
