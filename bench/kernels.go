package bench

import (
	"context"
	"fmt"
	"time"

	"whorl/tensor"
)

// KernelOptions say which products to measure.
type KernelOptions struct {
	Formats []tensor.DType
	Rows    []int // of activations
	Repeat  int
	Slice   time.Duration
	// Memory is the least size, in bytes, of the weights that a measurement walks
	// through: far beyond the caches, or decoding would read them.
	Memory int64
}

// kernelShapes are matrices of the shape 1.1b: output times input features.
var kernelShapes = [][2]int{{2048, 2048}, {5632, 2048}, {2048, 5632}}

// maxCopies bounds the copies of a matrix that a small one would need.
const maxCopies = 1024

// Kernel is one line of the table: a product of Out x In weights with Rows rows.
type Kernel struct {
	Format      string   `json:"format"`
	Out         int      `json:"out"`
	In          int      `json:"in"`
	Rows        int      `json:"rows"`
	GBS         float64  `json:"gb_s"` // of weights, in their own format
	GFlopS      float64  `json:"gflop_s"`
	MemoryShare float64  `json:"memory_share"`
	DotShare    *float64 `json:"dot_share"` // nil: no such ceiling
}

// Kernels measures the products of all formats, shapes and rows, activations made ready
// before, each beside both ceilings. It calls report after each line.
func Kernels(ctx context.Context, dev tensor.Device, c Ceiling, o KernelOptions, report func(Kernel)) error {
	for _, f := range o.Formats {
		r, err := newRandom(dev, f)
		if err != nil {
			return err
		}
		for _, s := range kernelShapes {
			if err := kernelShape(ctx, r, c, o, s[0], s[1], report); err != nil {
				return fmt.Errorf("%v %dx%d: %w", f, s[0], s[1], err)
			}
		}
	}
	return nil
}

func kernelShape(ctx context.Context, r *random, c Ceiling, o KernelOptions, out, in int, report func(Kernel)) error {
	bytes := matrixBytes(r.format, out, in)
	copies := make([]tensor.Weight, min(max((o.Memory+bytes-1)/bytes, 1), maxCopies))
	for i := range copies {
		var err error
		if copies[i], err = r.matrix(out, in); err != nil {
			return err
		}
	}
	for _, rows := range o.Rows {
		k, err := kernel(ctx, r, c, o, copies, rows)
		if err != nil {
			return err
		}
		report(k)
	}
	return nil
}

// kernel measures one product.
func kernel(ctx context.Context, r *random, c Ceiling, o KernelOptions, copies []tensor.Weight, rows int) (Kernel, error) {
	out, in := copies[0].Rows(), copies[0].Cols()
	k := Kernel{Format: r.format.String(), Out: out, In: in, Rows: rows}
	product, err := newProduct(r.dev, rows, out, in)
	if err != nil {
		return k, err
	}
	next := 0
	work := []Slice{
		func() (float64, error) {
			product.do(copies[next%len(copies)])
			next++
			return 1, r.dev.Sync()
		},
		func() (float64, error) { return float64(c.Read()), nil },
	}
	if c.Dot(r.format) > 0 {
		work = append(work, func() (float64, error) { return float64(c.Dot(r.format)), nil })
	}
	rates, err := Alternate(ctx, o.Repeat, o.Slice, work...)
	if err != nil {
		return k, err
	}
	bytes, ops := float64(matrixBytes(r.format, out, in)), 2*float64(out)*float64(in)*float64(rows)
	k.GBS, k.GFlopS = Median(rates[0])*bytes/1e9, Median(rates[0])*ops/1e9
	share, err := Share(rates[0], rates[1])
	if err != nil {
		return k, err
	}
	k.MemoryShare = share * bytes
	if len(rates) > 2 {
		if share, err = Share(rates[0], rates[2]); err != nil {
			return k, err
		}
		share *= ops
		k.DotShare = &share
	}
	return k, nil
}

// product holds the operands of a product apart from its weights.
type product struct {
	dev  tensor.Device
	act  tensor.Act
	list [1]tensor.Product
}

func newProduct(dev tensor.Device, rows, out, in int) (*product, error) {
	p := &product{dev: dev}
	x, err := dev.NewBuffer(rows, in)
	if err != nil {
		return nil, err
	}
	if p.list[0].Dst, err = dev.NewBuffer(rows, out); err != nil {
		return nil, err
	}
	if p.act, err = dev.NewAct(rows, in); err != nil {
		return nil, err
	}
	values := make([]float32, rows*in)
	for i := range values {
		values[i] = float32(i%97)/97 - 0.5
	}
	dev.Upload(x, 0, values)
	dev.Prepare(p.act, x, rows, tensor.Act8)
	return p, nil
}

func (p *product) do(w tensor.Weight) {
	p.list[0].W = w
	p.dev.MatMul(p.act, p.list[:])
}
