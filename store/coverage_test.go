package store

import (
	"slices"
	"testing"
	"time"

	"whorl/swarm"
)

func TestWindowSteps(t *testing.T) {
	w := Window{Step: time.Minute}
	if a, b := w.bucket(at(0)), w.bucket(at(59)); a != b {
		t.Errorf("seconds 0 and 59 lie in steps %d and %d", a, b)
	}
	if a, b := w.bucket(at(59)), w.bucket(at(60)); a+1 != b {
		t.Errorf("seconds 59 and 60 lie in steps %d and %d", a, b)
	}
}

func TestPackCounts(t *testing.T) {
	for _, counts := range [][]int{nil, {0}, {1, 1, 1}, {0, 1, 0, 300, 300}, make([]int, swarm.MaxBlocks)} {
		got, err := unpackCounts(packCounts(counts))
		if err != nil || !slices.Equal(got, counts) {
			t.Errorf("%d counts came back as %d, %v", len(counts), len(got), err)
		}
	}
	for _, b := range [][]byte{{1}, {1, 0}, {0x80}, {1, 0x80}, {1, 0x81, 0x20}, append(packCounts(make([]int, swarm.MaxBlocks)), 1, 1)} {
		if got, err := unpackCounts(b); err == nil {
			t.Errorf("bytes %v were read as %d counts", b, len(got))
		}
	}
}

func FuzzUnpackCounts(f *testing.F) {
	f.Add([]byte{})
	f.Add(packCounts([]int{1, 1, 0, 2}))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		counts, err := unpackCounts(b)
		if err != nil {
			return
		}
		again, err := unpackCounts(packCounts(counts))
		if err != nil || !slices.Equal(again, counts) {
			t.Errorf("%v came back as %v, %v", counts, again, err)
		}
	})
}
