package weights

import (
	"encoding/binary"
	"fmt"
)

// cursor reads little-endian values from bytes in memory. After the first failure every
// read gives zero and err stays set, so that a caller may check once per group of reads.
type cursor struct {
	data []byte
	pos  int
	err  error
	fill func(end int) error // brings the bytes before end; nil: they are there
}

// take gives the next n bytes as a view.
func (c *cursor) take(n uint64) []byte {
	if c.err != nil {
		return nil
	}
	if n > uint64(len(c.data)-c.pos) {
		c.err = fmt.Errorf("%d bytes are missing at byte %d", n-uint64(len(c.data)-c.pos), c.pos)
		return nil
	}
	if c.fill != nil {
		if c.err = c.fill(c.pos + int(n)); c.err != nil {
			return nil
		}
	}
	b := c.data[c.pos : c.pos+int(n)]
	c.pos += int(n)
	return b
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// str reads a length and that many bytes, copied out of the mapping.
func (c *cursor) str(limit uint64) string {
	n := c.u64()
	if c.err == nil && n > limit {
		c.err = fmt.Errorf("a string of %d bytes at byte %d, the limit is %d", n, c.pos, limit)
	}
	return string(c.take(n))
}

// fail says what was being read when the bytes ran out.
func (c *cursor) fail(what string) error {
	return fmt.Errorf("%s is truncated or corrupt: %w", what, c.err)
}
