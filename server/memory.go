package server

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"whorl/server/blocks"
	"whorl/server/kvcache"
	"whorl/swarm/budget"
	"whorl/swarm/proof"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// MemoryPlan is what a server will take, in bytes.
type MemoryPlan struct {
	Blocks     int
	CacheToken int // tokens of whole sessions
	Weights    int64
	Adapters   int64
	Cache      int64
	Buffers    int64
	Network    int64 // connections and streams
	Queues     int64 // rows on their way in and out, of all sessions
	Spare      int64 // kept free, and what is left over
	Total      int64
}

// held is what the blocks take, with their adapters where there are any.
func (p MemoryPlan) held() string {
	if p.Adapters == 0 {
		return "weights " + size(p.Weights)
	}
	return fmt.Sprintf("weights %s, adapters %s", size(p.Weights), size(p.Adapters))
}

// String is the plan as it is printed before anything is loaded.
func (p MemoryPlan) String() string {
	return fmt.Sprintf("%d blocks: %s, cache %s (%d tokens), buffers %s, network %s, queues %s, spare %s of %s",
		p.Blocks, p.held(), size(p.Cache), p.CacheToken, size(p.Buffers), size(p.Network), size(p.Queues), size(p.Spare), size(p.Total))
}

func size(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// Cache sizes in tokens when none is given: Petals' figures. Where query heads share
// key/value heads a token takes less room.
const (
	sharedCacheTokens = 16384
	cacheTokens       = 4096
)

// Plan is the memory that a server of this configuration would take of a model of so many
// blocks, found without loading anything.
func (c *Config) Plan(z blocks.Sizes, modelBlocks int) (MemoryPlan, error) {
	total := c.Memory
	if total == 0 {
		var err error
		if total, err = AvailableMemory(); err != nil {
			return MemoryPlan{}, err
		}
	}
	asked := c.NumBlocks
	if c.Span != nil {
		asked = c.Span.Len()
	}
	z.Workspace += int64(c.StepRows) * int64(c.Manifest.Hidden) * 2 * 4 // the second rowset
	return planMemory(z, total, c.Spare, c.Network, min(asked, modelBlocks), modelBlocks, c.CacheToken)
}

// Queues take a sixteenth of the memory, within bounds: below the least a few clients with
// long prompts would wait for each other, above the most nothing is gained.
const (
	queuesPart = 16
	minQueues  = 64 << 20
	maxQueues  = 2 << 30
)

func queuesOf(total int64) int64 { return min(max(total/queuesPart, minQueues), maxQueues) }

// budgets divides the memory for queues where the configuration does not say how: half is for
// rows that come, a fifth of that while they are read, the rest for what goes out.
func (s *Server) budgets(queues int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.cfg.Queues
	for _, part := range []struct {
		was, now *int
		eighths  int64
	}{{&s.given.InTotal, &q.InTotal, 3}, {&s.given.OutTotal, &q.OutTotal, 2}, {&s.given.JournalTotal, &q.JournalTotal, 2}, {&s.given.Reading, &q.Reading, 1}} {
		if *part.now = *part.was; *part.now == 0 {
			*part.now = int(queues * part.eighths / 8)
		}
	}
	// The largest frame must fit, and leave room for another's.
	q.Reading = max(q.Reading, 4*wire.RowsLimit(s.rowBytes()))
	s.reading.Store(budget.New("bytes of frames that are being read", int64(q.Reading)))
}

// planMemory decides how many blocks fit, or checks that the given number does. total is
// what may be used in all; spare of it stays free.
func planMemory(z blocks.Sizes, total, spare, network int64, asked, modelBlocks, tokens int) (MemoryPlan, error) {
	if tokens == 0 {
		tokens = cacheTokens
		if z.Shared {
			tokens = sharedCacheTokens
		}
	}
	tokens = kvcache.PagesFor(tokens) * tensor.PageTokens
	queues := queuesOf(total)
	buffers := z.Workspace + proof.LogBytes(int64(tokens)) // receipts of all rows that the cache can hold
	perBlock := z.Block + z.Adapters + z.Token*int64(tokens)
	n := asked
	if n == 0 {
		n = int(min(max(0, (total-spare-network-queues-buffers)/max(perBlock, 1)), int64(modelBlocks)))
		n = max(n, 1)
	}
	p := MemoryPlan{
		Blocks: n, CacheToken: tokens, Total: total,
		Network: network, Queues: queues,
		Weights: z.Block * int64(n), Adapters: z.Adapters * int64(n), Cache: z.Token * int64(tokens) * int64(n), Buffers: buffers,
	}
	p.Spare = total - p.Weights - p.Adapters - p.Cache - p.Buffers - p.Network - p.Queues
	if p.Spare < spare {
		need := total - p.Spare + spare
		blocks, advice := "1 block needs", "take a smaller cache (--attn-cache-tokens), or more --memory if the machine has it"
		if n > 1 {
			blocks, advice = fmt.Sprintf("%d blocks need", n), "hold fewer blocks (--num-blocks) or a smaller cache (--attn-cache-tokens)"
		}
		return p, fmt.Errorf("not enough memory: %s %s (%s, cache of %d tokens %s, buffers %s, network %s, queues %s, spare %s) and %s is free: "+advice,
			blocks, size(need), p.held(), tokens, size(p.Cache), size(p.Buffers), size(p.Network), size(p.Queues), size(spare), size(total))
	}
	return p, nil
}

// Heap is what Go's own memory may take: buffers, queues, connections and what is spare.
// Weights and cache are outside of it.
func (p MemoryPlan) Heap() int64 { return p.Buffers + p.Network + p.Queues + p.Spare }

// AvailableMemory is what the system can give without swapping, in bytes.
func AvailableMemory() (int64, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("cannot find out how much memory is free: %w: give the number of blocks and --memory", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var kb int64
		if n, _ := fmt.Sscanf(strings.TrimSpace(lines.Text()), "MemAvailable: %d kB", &kb); n == 1 {
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("cannot find out how much memory is free: no MemAvailable in /proc/meminfo: give --memory")
}
