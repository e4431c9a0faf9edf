package server

import (
	"fmt"

	"whorl/internal/sysmem"
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
	Head       int64 // of the gateway in this process
	Cache      int64
	Buffers    int64
	Network    int64  // connections and streams
	Queues     int64  // rows on their way in and out, of all sessions
	Passes     int64  // rows and workspace of passes, for clients that train
	Spare      int64  // for Go's own heap to grow into, and what is left over
	Total      int64  // of all above
	Source     string // where Total comes from, for people; "": the operator said it
}

// held is what the weights take, with adapters and head where there are any.
func (p MemoryPlan) held() string {
	text := "weights " + size(p.Weights)
	if p.Adapters > 0 {
		text += ", adapters " + size(p.Adapters)
	}
	if p.Head > 0 {
		text += ", head " + size(p.Head)
	}
	return text
}

// trains is what passes take, if anything.
func (p MemoryPlan) trains() string {
	if p.Passes == 0 {
		return ""
	}
	return "passes " + size(p.Passes) + ", "
}

// String is the plan as it is printed before anything is loaded.
func (p MemoryPlan) String() string {
	text := fmt.Sprintf("%d blocks: %s, cache %s (%d tokens), buffers %s, network %s, queues %s, %sspare %s of %s",
		p.Blocks, p.held(), size(p.Cache), p.CacheToken, size(p.Buffers), size(p.Network), size(p.Queues), p.trains(), size(p.Spare), size(p.Total))
	if p.Source != "" {
		text += ", which is " + p.Source
	}
	return text
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

// keepPart of what is free is left to others: what a system calls free is an estimate, and
// whoever takes the last of it is ended, or makes the system swap.
const keepPart = 10

// Room is how much memory a server may take.
type Room struct {
	Bytes  int64
	Source string // where that comes from, for people; "": the operator said it
}

// FreeRoom is what is free, less a tenth.
func FreeRoom() (Room, error) {
	free, err := sysmem.Available()
	if err != nil {
		return Room{}, fmt.Errorf("cannot find out how much memory is free: %w: give --memory", err)
	}
	return roomOf(free), nil
}

func roomOf(free sysmem.Free) Room {
	kept := free.Bytes / keepPart
	what := "what is free"
	if free.Limit != "" {
		what = "what " + free.Limit + " leaves"
	}
	return Room{free.Bytes - kept, fmt.Sprintf("%s (%s) less a tenth (%s)", what, size(free.Bytes), size(kept))}
}

// Plan is the memory that a server of this configuration would take of a model of so many
// blocks, found without loading anything.
func (c *Config) Plan(z blocks.Sizes, modelBlocks int) (MemoryPlan, error) {
	room := Room{c.Memory, c.MemoryFrom}
	if room.Bytes == 0 {
		var err error
		if room, err = FreeRoom(); err != nil {
			return MemoryPlan{}, err
		}
	}
	asked := c.NumBlocks
	if c.Span != nil {
		asked = c.Span.Len()
	}
	z.Workspace += int64(c.StepRows) * int64(c.Manifest.Hidden) * 2 * 4 // the second rowset
	return planMemory(z, room, c.passMemory(room.Bytes), c.Spare, c.Network, c.Head, min(asked, modelBlocks), modelBlocks, c.CacheToken)
}

// Queues take a sixteenth of the memory, within bounds: below the least a few clients with
// long prompts would wait for each other, above the most nothing is gained.
const (
	queuesPart = 16
	minQueues  = 64 << 20
	maxQueues  = 2 << 30
)

func queuesOf(total int64) int64 { return min(max(total/queuesPart, minQueues), maxQueues) }

// Passes take half as much, within bounds, unless the configuration says how much: blocks and
// sessions come first.
const (
	passesPart = 32
	minPasses  = 64 << 20
	maxPasses  = 4 << 30
)

func (c *Config) passMemory(total int64) int64 {
	switch {
	case c.Passes.Off:
		return 0
	case c.Passes.Memory > 0:
		return c.Passes.Memory
	}
	return min(max(total/passesPart, minPasses), maxPasses)
}

// budgets divides the memory for queues where the configuration does not say how: half is for
// rows that come, a fifth of that while they are read, the rest for what goes out.
func (s *Server) budgets(queues, passes int64) {
	s.passing.Store(&passBudgets{
		rows: budget.New("bytes of passes", passes/2), work: budget.New("bytes of workspace for passes", passes-passes/2),
		count: budget.New("passes", int64(s.cfg.Passes.Most)),
	})
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

// planMemory decides how many blocks fit into a room, or checks that the given number does.
// spare of it stays free.
func planMemory(z blocks.Sizes, room Room, passes, spare, network, head int64, asked, modelBlocks, tokens int) (MemoryPlan, error) {
	if tokens == 0 {
		tokens = cacheTokens
		if z.Shared {
			tokens = sharedCacheTokens
		}
	}
	tokens = kvcache.PagesFor(tokens) * tensor.PageTokens
	total := room.Bytes
	queues := queuesOf(total)
	buffers := z.Workspace + proof.LogBytes(int64(tokens)) // receipts of all rows that the cache can hold
	perBlock := z.Block + z.Adapters + z.Token*int64(tokens)
	n := asked
	if n == 0 {
		n = int(min(max(0, (total-spare-network-queues-passes-head-buffers)/max(perBlock, 1)), int64(modelBlocks)))
		n = max(n, 1)
	}
	p := MemoryPlan{
		Blocks: n, CacheToken: tokens, Total: total, Source: room.Source, Head: head,
		Network: network, Queues: queues, Passes: passes,
		Weights: z.Block * int64(n), Adapters: z.Adapters * int64(n), Cache: z.Token * int64(tokens) * int64(n), Buffers: buffers,
	}
	p.Spare = total - p.Weights - p.Adapters - p.Head - p.Cache - p.Buffers - p.Network - p.Queues - p.Passes
	if p.Spare < spare {
		need := total - p.Spare + spare
		blocks, advice := "1 block needs", "take a smaller cache (--attn-cache-tokens), or more --memory if the machine has it"
		if n > 1 {
			blocks, advice = fmt.Sprintf("%d blocks need", n), "hold fewer blocks (--num-blocks) or a smaller cache (--attn-cache-tokens)"
		}
		if p.Head > 0 && need-p.Head <= total {
			advice = "let a gateway elsewhere hold the head (--http off), or " + advice
		}
		there := size(total) + " is there"
		if p.Source != "" {
			there += ", " + p.Source
		}
		return p, fmt.Errorf("not enough memory: %s %s (%s, cache of %d tokens %s, buffers %s, network %s, queues %s, %sspare %s) and %s: %s",
			blocks, size(need), p.held(), tokens, size(p.Cache), size(p.Buffers), size(p.Network), size(p.Queues), p.trains(), size(spare), there, advice)
	}
	return p, nil
}

// Heap is what Go's own memory may take: buffers, queues, connections and what is spare.
// Weights and cache are outside of it.
func (p MemoryPlan) Heap() int64 { return p.Buffers + p.Network + p.Queues + p.Passes + p.Spare }
