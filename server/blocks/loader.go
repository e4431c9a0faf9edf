package blocks

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"whorl/content"
	"whorl/model"
	"whorl/model/lora"
	"whorl/tensor"
)

// Options of a Loader.
type Options struct {
	Load model.LoadOptions
	// Roots are what the blocks of the model must contain, as its manifest says; nil: the
	// blocks may contain anything, and are not hashed.
	Roots    []content.Hash
	KV       tensor.DType    // of the KV cache: F32 or BF16
	Adapters []*lora.Adapter // of distinct names; the caller closes them after the last Load
	StepRows int             // most rows of one step
	Parallel int             // blocks loaded at once; 0: one per processor
}

// Loader loads spans of one model onto one device. It owns neither. Safe for concurrent
// use.
type Loader struct {
	ck    *model.Checkpoint
	dev   tensor.Device
	opt   Options
	sizes Sizes
	tried int // the block that was loaded to learn its size
	took  time.Duration

	mu    sync.Mutex    // guards all below, and opt.Adapters and sizes
	block *model.Block  // that block, until the first Load
	added map[int]int64 // what each adapter adds to sizes.Adapters, by its place
}

// NewLoader checks that the model can be had in the form that o asks for. Devices repack
// weights and pad them, so what a block takes is known only once one was loaded: it loads
// the largest one and keeps it for the first Load.
func NewLoader(ck *model.Checkpoint, dev tensor.Device, o Options) (*Loader, error) {
	if o.Roots != nil && len(o.Roots) != ck.Config.Layers {
		return nil, fmt.Errorf("roots of %d blocks for the %d of %s", len(o.Roots), ck.Config.Layers, ck.Name)
	}
	if o.StepRows < 1 {
		return nil, fmt.Errorf("steps of %d rows: want at least 1", o.StepRows)
	}
	if o.Parallel < 1 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	o.Adapters = slices.Clone(o.Adapters)
	l := &Loader{ck: ck, dev: dev, opt: o, added: map[int]int64{}}
	var err error
	if l.tried, _, err = largest(ck, ck.Config.Layers, o.Load); err != nil {
		return nil, err
	}
	began := time.Now()
	if l.block, err = ck.LoadBlock(dev, l.tried, o.Load); err != nil {
		return nil, err
	}
	l.took = time.Since(began)
	one, err := dev.NewKV(ck.Config.KVSpec(1, 1, o.KV))
	if err != nil {
		return nil, fmt.Errorf("KV cache of one page: %w", err)
	}
	l.sizes = sizesOf(&ck.Config, l.block.Bytes(), one.PageBytes()/tensor.PageTokens, o.StepRows)
	return l, l.sizeAdapters()
}

// sized is a checkpoint or an outline of one.
type sized interface {
	BlockBytes(i int, o model.LoadOptions) (int64, error)
}

// largest finds the largest block, the first of equals, and its size.
func largest(m sized, layers int, o model.LoadOptions) (block int, bytes int64, err error) {
	for i := range layers {
		n, err := m.BlockBytes(i, o)
		if err != nil {
			return 0, 0, err
		}
		if n > bytes {
			block, bytes = i, n
		}
	}
	return block, bytes, nil
}

func sizesOf(c *model.Config, block, token int64, stepRows int) Sizes {
	return Sizes{Block: block, Token: token, Workspace: workspaceBytes(c, stepRows), Shared: c.KVHeads < c.Heads}
}

// Outlined is what blocks would take by an outline of the model: as Loader.Sizes, but that
// nothing was loaded, so neither a device's padding nor adapters are in it.
func Outlined(m *model.Outline, o Options) (Sizes, error) {
	if err := tensor.CheckKVDType(o.KV); err != nil {
		return Sizes{}, err
	}
	c := m.Config()
	_, block, err := largest(m, c.Layers, o.Load)
	if err != nil {
		return Sizes{}, err
	}
	value := int64(4)
	if o.KV == tensor.BF16 {
		value = 2
	}
	token := 2 * value * int64(c.KVHeads) * int64(c.HeadDim) // keys and values
	return sizesOf(&c, block, token, o.StepRows), nil
}

// workspaceBytes are the buffers of nn.Workspace, the prepared copies of those that products
// read, and the rows in host memory. Blocks may differ: their MLPs in width, and one kind
// may need buffers that another does not.
func workspaceBytes(c *model.Config, rows int) int64 {
	kv, q := c.KVHeads*c.HeadDim, c.Heads*c.HeadDim
	row := 2*c.Hidden + 2*q + 2*kv + 2*(c.Hidden+q) + 2*c.Hidden
	outNorm, mlpNorm, ffn := 0, 0, map[int]bool{}
	for i := range c.Layers {
		s := c.Block(i)
		if s.OutNorm {
			outNorm = c.Hidden
		}
		if s.Parallel && !s.OneNorm {
			mlpNorm = 3 * c.Hidden
		}
		if !ffn[s.FFN] {
			ffn[s.FFN] = true
			row += 3 * s.FFN
		}
	}
	return 4 * int64(rows) * int64(row+outNorm+mlpNorm)
}

// Sizes says what spans of this model take.
func (l *Loader) Sizes() Sizes {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sizes
}

// Load loads blocks [start, end), several at once, and makes a KV pool of the given pages
// and a workspace. Blocks that keep holds, if it is not nil, are shared with it and not loaded
// again; it may be in use meanwhile. loaded, if not nil, hears of every block, from several
// goroutines.
func (l *Loader) Load(ctx context.Context, start, end, pages int, keep *Span, loaded func(Info)) (*Span, error) {
	if start < 0 || start >= end || end > l.ck.Config.Layers {
		return nil, fmt.Errorf("blocks %d:%d: %s has 0:%d", start, end, l.ck.Name, l.ck.Config.Layers)
	}
	n := end - start
	s := &Span{dev: l.dev, ck: l.ck, start: start, hidden: l.ck.Config.Hidden, pages: pages, blocks: make([]*model.Block, n), infos: make([]Info, n)}
	files := l.files()
	s.adapters = newAdapters(len(files), n, l.opt.StepRows)
	l.mu.Lock()
	tried := l.block
	l.block = nil
	l.mu.Unlock()
	for _, lack := range s.share(keep) {
		if err := l.ck.Fetch(ctx, lack[0], lack[1], false); err != nil {
			return nil, err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(l.opt.Parallel)
	for i := range n {
		if s.blocks[i] != nil { // shared
			if loaded != nil {
				loaded(s.infos[i])
			}
			continue
		}
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			began := time.Now()
			root, err := l.checked(start + i)
			if err != nil {
				return err
			}
			b, took := tried, l.took
			if b == nil || start+i != l.tried {
				if b, err = l.ck.LoadBlock(l.dev, start+i, l.opt.Load); err != nil {
					return err
				}
				took = 0
			}
			held, err := s.adapters.load(l.dev, files, start, i)
			if err != nil {
				return err
			}
			s.blocks[i] = b
			s.infos[i] = Info{Index: start + i, Bytes: b.Bytes() + held, Load: time.Since(began) + took, Root: root}
			if loaded != nil {
				loaded(s.infos[i])
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var err error
	if s.ws, err = l.ck.Config.NewWorkspace(l.dev, l.opt.StepRows); err != nil {
		return nil, err
	}
	if err := s.adapters.reserve(s); err != nil {
		return nil, err
	}
	if s.kv, err = l.dev.NewKV(l.ck.Config.KVSpec(n, pages, l.opt.KV)); err != nil {
		return nil, fmt.Errorf("KV cache of %d pages for %d blocks: %w", pages, n, err)
	}
	return s, nil
}

// checked compares a block with what it must contain and gives its root in hex.
func (l *Loader) checked(block int) (string, error) {
	if l.opt.Roots == nil {
		return "", nil
	}
	want := l.opt.Roots[block]
	return want.String(), l.ck.CheckBlock(block, want)
}
