package cpu

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// kv is a pool of pages. A page holds, for each layer and key/value head, a part of keys
// and a part of values in the float layout (package doc): keys [4][headDim][16 positions],
// values [vBlocks][64 positions][16 dimensions].
type kv struct {
	spec    tensor.KVSpec
	vBlocks int       // blocks of 16 dimensions, even: the padding stays zero
	full    []float32 // of an F32 pool
	half    []uint16  // of a BF16 pool
	slab    *slab     // keeps them alive
}

func (c *kv) Pages() int       { return c.spec.Pages }
func (c *kv) PageBytes() int64 { return int64(c.pageLen() * c.valueBytes()) }

// valueBytes is the size of one number.
func (c *kv) valueBytes() int {
	if c.spec.DType == tensor.BF16 {
		return 2
	}
	return 4
}

func (c *kv) keyLen() int   { return tensor.PageTokens * c.spec.HeadDim }
func (c *kv) valueLen() int { return tensor.PageTokens * c.vBlocks * lanes }
func (c *kv) pageLen() int {
	return c.spec.Layers * c.spec.KVHeads * (c.keyLen() + c.valueLen())
}

// head says where the keys and values of one head of one layer in one page begin.
func (c *kv) head(page int32, layer, head int) (keys, values int) {
	keys = int(page)*c.pageLen() + (layer*c.spec.KVHeads+head)*(c.keyLen()+c.valueLen())
	return keys, keys + c.keyLen()
}

// product continues float products with the keys or values that begin at
// the given place; what begins at next is read after them.
func (c *kv) product(k *kernels, acc []float32, accStride, at, stride, blocks int, x []float32, xStride, rows, n, next int) {
	if c.spec.DType == tensor.BF16 {
		k.halves[tensor.BF16].product(acc, accStride, c.half[at:], stride, blocks, x, xStride, rows, n, &c.half[next])
		return
	}
	k.f32(acc, accStride, c.full[at:], stride, blocks, x, xStride, rows, n, &c.full[next])
}

// NewKV reserves a pool; the system commits its memory as pages are first touched.
func (d *Device) NewKV(s tensor.KVSpec) (tensor.KV, error) {
	const most = 1 << 20 // of each: far beyond any model, and their product fits an int
	if s.Layers <= 0 || s.KVHeads <= 0 || s.HeadDim <= 0 || s.Pages <= 0 ||
		s.Layers > most || s.KVHeads > most || s.HeadDim > most || s.Pages > most {
		return nil, fmt.Errorf("cpu device: KV pool of %+v: all sizes must be from 1 to 2^20", s)
	}
	if err := tensor.CheckKVDType(s.DType); err != nil {
		return nil, fmt.Errorf("cpu device: %w", err)
	}
	c := &kv{spec: s, vBlocks: (s.HeadDim + 2*lanes - 1) / (2 * lanes) * 2}
	if s.Layers*s.KVHeads > maxFloats/(c.keyLen()+c.valueLen()) || c.pageLen() > maxFloats/s.Pages {
		return nil, fmt.Errorf("cpu device: KV pool of %+v is larger than 2^40 bytes", s)
	}
	n := c.pageLen() * s.Pages
	m, err := newSlab(n * c.valueBytes())
	if err != nil {
		return nil, fmt.Errorf("cpu device: KV pool of %+v: %w", s, err)
	}
	c.slab = m
	if base := unsafe.Pointer(unsafe.SliceData(m.mem)); s.DType == tensor.BF16 {
		c.half = unsafe.Slice((*uint16)(base), n)
	} else {
		c.full = unsafe.Slice((*float32)(base), n)
	}
	return c, nil
}

// CopyPages copies whole pages.
func (d *Device) CopyPages(cache tensor.KV, dst, src []int32) {
	d.begin()
	defer d.end()
	c := cache.(*kv)
	if len(dst) != len(src) {
		bug("copy %d pages to %d", len(src), len(dst))
	}
	n := int(c.PageBytes())
	for i := range dst {
		if !(dst[i] >= 0 && int(dst[i]) < c.spec.Pages && src[i] >= 0 && int(src[i]) < c.spec.Pages) {
			bug("copy page %d to %d of %d", src[i], dst[i], c.spec.Pages)
		}
		copy(c.slab.mem[int(dst[i])*n:][:n], c.slab.mem[int(src[i])*n:][:n])
	}
	runtime.KeepAlive(c)
}

// FreePages implements [tensor.PageFreer].
func (d *Device) FreePages(cache tensor.KV, pages []int32) {
	c := cache.(*kv)
	n := int(c.PageBytes())
	pages = slices.Sorted(slices.Values(pages))
	for from := 0; from < len(pages); {
		to := from + 1
		for to < len(pages) && pages[to] == pages[to-1]+1 {
			to++
		}
		if first, last := pages[from], pages[to-1]; first < 0 || int(last) >= c.spec.Pages {
			bug("free pages %d to %d of %d", first, last, c.spec.Pages)
		}
		c.slab.release(int(pages[from])*n, (int(pages[to-1])+1)*n)
		from = to
	}
	runtime.KeepAlive(c)
}

// write stores one head's key and value at offset pos of a page.
func (c *kv) write(page int32, layer, head, pos int, k, v []float32) {
	keys, values := c.head(page, layer, head)
	keys += pos/lanes*lanes*len(k) + pos%lanes
	values += pos * lanes
	const block = tensor.PageTokens * lanes // of values
	if c.spec.DType == tensor.BF16 {
		for i, x := range k {
			c.half[keys+i*lanes] = quant.F32ToBF16(x)
		}
		for i, x := range v {
			c.half[values+i/lanes*block+i%lanes] = quant.F32ToBF16(x)
		}
		return
	}
	for i, x := range k {
		c.full[keys+i*lanes] = x
	}
	for i := 0; i < len(v); i += lanes {
		copy(c.full[values+i/lanes*block:], v[i:min(i+lanes, len(v))])
	}
}
