package cpu

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"whorl/tensor"
)

// loops are what ceilings are measured with. f32 and int8 are nil where this build has no
// assembly for this processor: plain Go does not come near the limits of its arithmetic.
type loops struct {
	name string
	read func(b []byte) // len(b) is a multiple of 1024
	// f32 and int8 do a number of turns and give how many operations that was; a
	// multiplication and an addition are two.
	f32, int8 func(turns int) int64
}

// ceilingLoops does not depend on the tier of a device: a ceiling belongs to the machine.
var ceilingLoops = func() loops {
	for _, l := range archLoops() {
		return l
	}
	return loops{name: "go", read: goRead}
}()

// Ceiling measures what this machine could do at best with a device's threads: reading
// memory, and dot products on registers alone. It runs on the device's own workers, so it
// takes turns with ops, and it belongs to one goroutine.
type Ceiling struct {
	d    *Device
	slab *slab
	read readOp
	dot  dotOp
}

const (
	readTile  = 4 << 20 // bytes; a late thread costs at most one tile's time
	dotTurns  = 20000   // about 0.1 ms
	dotRounds = 64      // tiles for each thread in a call
)

// NewCeiling reserves memory to read, huge pages where the system gives them, and writes
// it once so that it is really there. bytesPerThread should be far beyond the caches.
func (d *Device) NewCeiling(bytesPerThread int64) (*Ceiling, error) {
	n := bytesPerThread * int64(d.pool.Threads()) / readTile * readTile
	if n <= 0 || int64(int(n)) != n {
		return nil, fmt.Errorf("cpu device: a ceiling over %d bytes a thread: want at least %d", bytesPerThread, readTile)
	}
	d.begin()
	defer d.end()
	s, err := newSlab(int(n))
	if err != nil {
		return nil, fmt.Errorf("cpu device: memory for a ceiling: %w", err)
	}
	c := &Ceiling{d: d, slab: s, read: readOp{s.mem}}
	d.pool.Run(fillOp(s.mem), int(n/readTile))
	return c, nil
}

// Loops names the loops: "avx512", "avx2", or "go" where there is no assembly.
func (c *Ceiling) Loops() string { return ceilingLoops.name }

// Read reads all the memory once and returns its bytes.
func (c *Ceiling) Read() int64 {
	c.d.begin()
	defer c.d.end()
	c.d.pool.Run(&c.read, len(c.read.mem)/readTile)
	return int64(len(c.read.mem))
}

// Dot runs a few milliseconds of the dot products that products of a format are made of
// under [tensor.Act8], and returns the number of operations; 0 if there is no loop for
// this machine.
func (c *Ceiling) Dot(t tensor.DType) int64 {
	c.dot.loop = ceilingLoops.f32
	if formOf(t) != 0 {
		c.dot.loop = ceilingLoops.int8
	}
	if c.dot.loop == nil {
		return 0
	}
	c.d.begin()
	defer c.d.end()
	c.dot.ops.Store(0)
	c.d.pool.Run(&c.dot, dotRounds*c.d.pool.Threads())
	return c.dot.ops.Load()
}

type readOp struct{ mem []byte }

func (op *readOp) Tile(_, i int) { ceilingLoops.read(op.mem[i*readTile:][:readTile]) }

type fillOp []byte

func (op fillOp) Tile(_, i int) {
	b := op[i*readTile:][:readTile]
	for k := 0; k < len(b); k += 8 {
		binary.LittleEndian.PutUint64(b[k:], uint64(i+k))
	}
}

type dotOp struct {
	loop func(turns int) int64
	ops  atomic.Int64
}

func (op *dotOp) Tile(_, _ int) { op.ops.Add(op.loop(dotTurns)) }

// goSink keeps the compiler from dropping goRead.
var goSink atomic.Uint64

func goRead(b []byte) {
	var s0, s1, s2, s3 uint64
	for ; len(b) >= 32; b = b[32:] {
		s0 |= binary.LittleEndian.Uint64(b)
		s1 |= binary.LittleEndian.Uint64(b[8:])
		s2 |= binary.LittleEndian.Uint64(b[16:])
		s3 |= binary.LittleEndian.Uint64(b[24:])
	}
	goSink.Store(s0 | s1 | s2 | s3)
}
