package cpu

import (
	"testing"

	"whorl/tensor"
)

// A ceiling counts what it did: every byte once, and operations in whole instructions.
func TestCeilingCounts(t *testing.T) {
	d, err := Open(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := d.NewCeiling(3 * readTile)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Read(), int64(6*readTile); got != want {
		t.Errorf("read %d bytes, want %d", got, want)
	}
	f, q, h := c.Dot(tensor.F32), c.Dot(tensor.Q4_0), c.Dot(tensor.BF16)
	if f != h {
		t.Errorf("%d operations for f32 and %d for bf16, whose products are those of f32", f, h)
	}
	if c.Loops() == "go" {
		if f != 0 || q != 0 {
			t.Errorf("%d and %d operations without a loop", f, q)
		}
	} else if f <= 0 || q != 4*f {
		t.Errorf("%d operations of f32 and %d of int8, want four times as many", f, q)
	}
	if _, err := d.NewCeiling(0); err == nil {
		t.Error("a ceiling over nothing was made")
	}
}

// Loops of a processor that has fewer registers are run too.
func TestArchLoops(t *testing.T) {
	for _, l := range archLoops() {
		l.read(make([]byte, 3*1024))
		if f, q := l.f32(5), l.int8(5); f <= 0 || q != 4*f {
			t.Errorf("%s: %d operations of f32 and %d of int8, want four times as many", l.name, f, q)
		}
	}
}

func TestGoReadTakesEverything(t *testing.T) {
	b := make([]byte, 1024)
	b[1023] = 0x80
	goRead(b)
	if goSink.Load() != 1<<63 {
		t.Errorf("the last byte was not read: %x", goSink.Load())
	}
}
