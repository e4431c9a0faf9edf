package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"whorl/swarm"
)

// Coverage is how the blocks of a model are held at one moment. Only online servers count.
type Coverage struct {
	Model         swarm.UID
	ModelName     string
	At            time.Time
	Counts        []int        // holders, per block
	Missing       []swarm.Span // nobody holds these
	Disputed      []swarm.Span // holders disagree on the digest: they are never mixed
	MinRedundancy int          // the least of Counts
	Servers       int
	// Bottleneck is the least, over the blocks, of the summed throughput of the holders, in
	// tokens per second: what all sessions together can get. nil if it is not measured.
	Bottleneck *float64
	// SessionTPS is what one session can get at best, in tokens per second: the fastest
	// holder of every block, the network left out. nil if it is not measured.
	SessionTPS *float64
	CacheLeft  int64 // the least, over the blocks, of the tokens free
}

// Measure computes the coverage of a view.
func Measure(v swarm.View) Coverage {
	n := v.Manifest.Blocks
	c := Coverage{Model: v.Manifest.UID(), ModelName: v.Manifest.Name, At: v.At, Counts: v.Coverage(swarm.Online)}
	c.Missing = swarm.MissingSpans(c.Counts)
	sum, best, cache := make([]float64, n), make([]float64, n), make([]int64, n)
	digest, agreed := make([]string, n), make([]int, n) // agreed: 0 in dispute, as MissingSpans wants it
	for b := range agreed {
		agreed[b] = 1
	}
	for i := range v.Servers {
		r := &v.Servers[i]
		if r.State != swarm.Online {
			continue
		}
		c.Servers++
		for b := max(0, r.Span.Start); b < min(r.Span.End, n); b++ {
			sum[b] += r.Throughput
			cache[b] += r.CacheLeft
			if r.Rates.InferenceRPS != nil {
				best[b] = max(best[b], *r.Rates.InferenceRPS)
			}
			switch d := r.Digest(b); {
			case d == "":
			case digest[b] == "":
				digest[b] = d
			case digest[b] != d:
				agreed[b] = 0
			}
		}
	}
	c.Disputed = swarm.MissingSpans(agreed)
	if n == 0 {
		return c
	}
	c.MinRedundancy, c.CacheLeft = slices.Min(c.Counts), slices.Min(cache)
	if m := slices.Min(sum); m > 0 {
		c.Bottleneck = &m
	}
	var seconds float64
	for _, rps := range best {
		if rps <= 0 {
			return c
		}
		seconds += 1 / rps
	}
	tps := 1 / seconds
	c.SessionTPS = &tps
	return c
}

// Condition is the state of a model in one word.
type Condition string

// The conditions. Broken means a block has no live holder, at once and without smoothing.
const (
	Healthy  Condition = "healthy"  // every block has as many holders as wanted
	Degraded Condition = "degraded" // usable, but spare holders are lacking or holders disagree
	Broken   Condition = "broken"
	Unknown  Condition = "unknown" // not asked yet, or the last refresh failed
)

// Condition judges the coverage: wanted is how many holders each block should have, at
// least 1.
func (c *Coverage) Condition(wanted int) Condition {
	switch {
	case len(c.Counts) == 0:
		return Unknown
	case c.MinRedundancy == 0:
		return Broken
	case c.MinRedundancy < wanted || len(c.Disputed) > 0:
		return Degraded
	}
	return Healthy
}

// worse orders coverages of one step: fewest holders first, then most blocks missing, then
// the later one.
func (c *Coverage) worse(o *Coverage) bool {
	return cmp.Or(cmp.Compare(c.MinRedundancy, o.MinRedundancy), cmp.Compare(blocks(o.Missing), blocks(c.Missing)), o.At.Compare(c.At)) < 0
}

func blocks(spans []swarm.Span) (n int) {
	for _, s := range spans {
		n += s.Len()
	}
	return n
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
