package cpu

import (
	"fmt"
	"runtime"
	"unsafe"

	"whorl/tensor"
)

// kv is a pool of pages. A page holds, for each layer and key/value head, a part of keys
// and a part of values in the float layout (package doc): keys [4][headDim][16 positions],
// values [vBlocks][64 positions][16 dimensions].
type kv struct {
	spec    tensor.KVSpec
	vBlocks int // blocks of 16 dimensions, even: the padding stays zero
	data    []float32
	slab    *slab // keeps data alive
}

func (c *kv) Pages() int       { return c.spec.Pages }
func (c *kv) PageBytes() int64 { return int64(c.pageLen()) * 4 }

func (c *kv) keyLen() int   { return tensor.PageTokens * c.spec.HeadDim }
func (c *kv) valueLen() int { return tensor.PageTokens * c.vBlocks * lanes }
func (c *kv) pageLen() int {
	return c.spec.Layers * c.spec.KVHeads * (c.keyLen() + c.valueLen())
}

// head gives the keys and values of one head of one layer in one page.
func (c *kv) head(page int32, layer, head int) (keys, values []float32) {
	n := c.keyLen() + c.valueLen()
	at := int(page)*c.pageLen() + (layer*c.spec.KVHeads+head)*n
	return c.data[at : at+c.keyLen()], c.data[at+c.keyLen() : at+n]
}

// NewKV reserves a pool; the system commits its memory as pages are first touched.
func (d *Device) NewKV(s tensor.KVSpec) (tensor.KV, error) {
	const most = 1 << 20 // of each: far beyond any model, and their product fits an int
	if s.Layers <= 0 || s.KVHeads <= 0 || s.HeadDim <= 0 || s.Pages <= 0 ||
		s.Layers > most || s.KVHeads > most || s.HeadDim > most || s.Pages > most {
		return nil, fmt.Errorf("cpu device: KV pool of %+v: all sizes must be from 1 to 2^20", s)
	}
	c := &kv{spec: s, vBlocks: (s.HeadDim + 2*lanes - 1) / (2 * lanes) * 2}
	if s.Layers*s.KVHeads > maxFloats/(c.keyLen()+c.valueLen()) || c.pageLen() > maxFloats/s.Pages {
		return nil, fmt.Errorf("cpu device: KV pool of %+v is larger than 2^40 bytes", s)
	}
	n := c.pageLen() * s.Pages
	m, err := newSlab(4 * n)
	if err != nil {
		return nil, fmt.Errorf("cpu device: KV pool of %+v: %w", s, err)
	}
	c.slab, c.data = m, unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(m.mem))), n)
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
	n := c.pageLen()
	for i := range dst {
		if !(dst[i] >= 0 && int(dst[i]) < c.spec.Pages && src[i] >= 0 && int(src[i]) < c.spec.Pages) {
			bug("copy page %d to %d of %d", src[i], dst[i], c.spec.Pages)
		}
		copy(c.data[int(dst[i])*n:][:n], c.data[int(src[i])*n:][:n])
	}
	runtime.KeepAlive(c)
}

// write stores one head's key and value at offset pos of a page.
func (c *kv) write(page int32, layer, head, pos int, k, v []float32) {
	keys, values := c.head(page, layer, head)
	col := keys[pos/lanes*lanes*len(k)+pos%lanes:]
	for i, x := range k {
		col[i*lanes] = x
	}
	for i := 0; i < len(v); i += lanes {
		copy(values[(i/lanes*tensor.PageTokens+pos)*lanes:], v[i:min(i+lanes, len(v))])
	}
}
