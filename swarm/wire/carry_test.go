package wire

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// What is written comes out after the delay, in its order, and so does the end.
func TestCarryTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, mid := Pipe()
		far, b := Pipe()
		const delay = 20 * time.Millisecond
		go Carry(far, mid, func() time.Duration { return delay })
		start := time.Now()
		for i := range 3 {
			a.Write([]byte{byte(i)})
			time.Sleep(5 * time.Millisecond)
		}
		a.Close()
		var buf [1]byte
		for i := range 3 {
			if _, err := io.ReadFull(b, buf[:]); err != nil || buf[0] != byte(i) {
				t.Fatalf("read %d: %d, %v", i, buf[0], err)
			}
			if took, want := time.Since(start), delay+time.Duration(i)*5*time.Millisecond; took != want {
				t.Errorf("byte %d came after %v, want %v", i, took, want)
			}
		}
		if _, err := b.Read(buf[:]); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}
	})
}
