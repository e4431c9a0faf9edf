package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/klauspost/compress/huff0"
)

// Packed frames hold BF16 rows without loss in about two thirds of the bytes. The lower byte of
// a bfloat16 is noise: these come first, as they are. The upper byte, sign and exponent, has some
// three bits of it: these follow in blocks, each behind its length in three little-endian bytes, in
// the Huffman code of zstd (huff0), with its table. On the rows of a prompt zstd's fastest level,
// which looks for repetitions first, is five times slower and packs less.
const (
	// packBlock is how many values are packed with one table at most.
	packBlock = 64 << 10
	packHead  = 3
	// minPacked is how many values a frame has at least: below it the table costs much of what it
	// saves. A single token of a model so wide is packed too: some microseconds for kilobytes.
	minPacked = 2048
)

// blockOf is how many of n values share a table: blocks of one size, but for the last.
func blockOf(n int) int {
	blocks := (n + packBlock - 1) / packBlock
	return (n + blocks - 1) / blocks
}

var packers = sync.Pool{New: func() any { return new(packer) }}

// packer is the memory of a frame that is packed or unpacked.
type packer struct {
	in, out []byte
	code    huff0.Scratch
	table   *huff0.Scratch
}

// AppendPacked appends values in BF16Packed; false, and dst as it was, if that does not pay. Values must
// be bfloat16s, as for Append.
func AppendPacked(dst []byte, values []float32) ([]byte, bool) {
	if len(values) < minPacked {
		return dst, false
	}
	p := packers.Get().(*packer)
	defer packers.Put(p)
	start, most := len(dst), len(dst)+2*len(values)*15/16
	for _, v := range values {
		dst = append(dst, byte(math.Float32bits(v)>>16))
	}
	for block := blockOf(len(values)); len(values) > 0; {
		n := min(len(values), block)
		p.in = p.in[:0]
		for _, v := range values[:n] {
			p.in = append(p.in, byte(math.Float32bits(v)>>24))
		}
		values = values[n:]
		p.code.Reuse, p.code.Out = huff0.ReusePolicyNone, p.out[:0]
		out, _, err := huff0.Compress4X(p.in, &p.code)
		if err != nil || len(dst)+packHead+len(out) > most { // nothing to gain
			return dst[:start], false
		}
		p.out = out
		dst = append(dst, byte(len(out)), byte(len(out)>>8), byte(len(out)>>16))
		dst = append(dst, out...)
	}
	return dst, true
}

var errPacked = errors.New("packed rows that cannot be unpacked")

// unpack appends n values. Their lower bytes are in data as they are, so that what is unpacked is at
// most four times what came.
func unpack(dst []float32, data []byte, n int) ([]float32, error) {
	if n < 1 || len(data) <= n || len(data) >= 2*n {
		return dst, fmt.Errorf("%w: %d values in %d bytes", errPacked, n, len(data))
	}
	p := packers.Get().(*packer)
	defer packers.Put(p)
	low, data := data[:n], data[n:]
	for block := blockOf(n); len(low) > 0; {
		m := min(len(low), block)
		if len(data) < packHead {
			return dst, fmt.Errorf("%w: they end early", errPacked)
		}
		size := int(binary.LittleEndian.Uint16(data)) | int(data[2])<<16
		if data = data[packHead:]; size > len(data) {
			return dst, fmt.Errorf("%w: a block of %d bytes where %d are", errPacked, size, len(data))
		}
		table, rest, err := huff0.ReadTable(data[:size], p.table)
		if err != nil {
			return dst, fmt.Errorf("%w: %v", errPacked, err)
		}
		p.table = table
		if cap(p.in) < m {
			p.in = make([]byte, packBlock)
		}
		high, err := table.Decoder().Decompress4X(p.in[:0:m], rest)
		if err != nil || len(high) != m {
			return dst, fmt.Errorf("%w: %d of %d values of a block: %v", errPacked, len(high), m, err)
		}
		for i, h := range high {
			dst = append(dst, math.Float32frombits(uint32(h)<<24|uint32(low[i])<<16))
		}
		low, data = low[m:], data[size:]
	}
	if len(data) > 0 {
		return dst, fmt.Errorf("%w: %d bytes behind them", errPacked, len(data))
	}
	return dst, nil
}
