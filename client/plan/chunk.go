package plan

import (
	"math"
	"time"
)

// ChunkParams bounds the chunks a prompt is cut into.
type ChunkParams struct {
	// Min keeps chunks large enough to pay for reading the weights once per chunk.
	Min int
	// Max is the most rows in one frame: a server's step budget.
	Max int
	// MaxBytes bounds a frame of rows.
	MaxBytes int
}

// DefaultChunkParams takes chunks of 32 to 512 rows, at most 8 MiB.
func DefaultChunkParams() ChunkParams { return ChunkParams{Min: 32, Max: 512, MaxBytes: 8 << 20} }

// Chunk chooses the rows per chunk for a prompt of n rows through a chain of stages. With
// k chunks the pipeline takes (k + stages-1) * (stage/k + hop), which is least at
// k = sqrt((stages-1)*stage/hop); stage is the time one stage takes for the whole prompt,
// hop what every frame costs beside. Results do not depend on it.
func (p ChunkParams) Chunk(n, stages, rowBytes int, stage, hop time.Duration) int {
	c := p.Max
	if stages > 1 && stage > 0 && hop > 0 {
		k := math.Sqrt(float64(stages-1) * float64(stage) / float64(hop))
		c = int(math.Ceil(float64(n) / max(k, 1)))
	}
	c = min(max(c, p.Min), p.Max)
	return max(1, min(c, p.MaxBytes/max(rowBytes, 1)))
}
