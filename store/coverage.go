package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/health"
)

// Coverage is how the blocks of a model were held at one moment.
type Coverage struct {
	Model     swarm.UID
	ModelName string
	At        time.Time
	health.Coverage
}

// Measure is the coverage of a view, to be kept.
func Measure(v swarm.View) Coverage {
	return Coverage{Model: v.Manifest.UID(), ModelName: v.Manifest.Name, At: v.At, Coverage: health.Measure(v)}
}

// worse orders coverages of one step: fewest holders first, then most blocks missing, then
// the later one.
func (c *Coverage) worse(o *Coverage) bool {
	return cmp.Or(cmp.Compare(c.MinRedundancy, o.MinRedundancy), cmp.Compare(swarm.Total(o.Missing), swarm.Total(c.Missing)), o.At.Compare(c.At)) < 0
}

// packCounts writes counts as pairs of varints: holders, and for how many blocks in a row.
func packCounts(counts []int) []byte {
	out := []byte{}
	for i := 0; i < len(counts); {
		j := i
		for j < len(counts) && counts[j] == counts[i] {
			j++
		}
		out = binary.AppendUvarint(out, uint64(counts[i]))
		out = binary.AppendUvarint(out, uint64(j-i))
		i = j
	}
	return out
}

// unpackCounts is the way back. It refuses more blocks than a model may have.
func unpackCounts(b []byte) ([]int, error) {
	var counts []int
	for len(b) > 0 {
		holders, n := binary.Uvarint(b)
		if n <= 0 || holders > 1<<31 {
			return nil, fmt.Errorf("block counts: bad number of holders before %d bytes from the end", len(b))
		}
		run, m := binary.Uvarint(b[n:])
		if m <= 0 || run == 0 || run > uint64(swarm.MaxBlocks-len(counts)) {
			return nil, fmt.Errorf("block counts: bad run before %d bytes from the end", len(b)-n)
		}
		b = b[n+m:]
		counts = append(counts, slices.Repeat([]int{int(holders)}, int(run))...)
	}
	return counts, nil
}
