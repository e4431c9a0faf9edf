package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"testing"
)

// repeat gives the same bytes for ever.
type repeat struct {
	b  []byte
	at int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.b[r.at:])
	r.at = (r.at + n) % len(r.b)
	return n, nil
}

// Frames of a decode and of a chunk of a prompt, of a small and a large model.
func BenchmarkReader(b *testing.B) {
	for _, n := range []int{44 + 4*576, 44 + 4*8192, 44 + 512*4*576, 44 + 512*4*4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := NewReader(bufio.NewReaderSize(&repeat{b: AppendFrame(nil, TypeRows, bytes.Repeat([]byte{1}, n))}, 32<<10))
			r.AllowRows(16 << 10)
			r.Charge(b.Context(), nil, &purse{left: 1 << 30})
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
