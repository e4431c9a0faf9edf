package server

import (
	"context"
	"time"

	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// Loader loads spans of one model. *blocks.Loader is one wrapped by FromBlocks.
type Loader interface {
	// Sizes says what a block takes, for the memory plan.
	Sizes() blocks.Sizes
	// Adapters lists the adapters that loaded spans hold.
	Adapters() []blocks.Adapter
	// Load loads blocks [start, end) with a KV pool of the given pages. Those that keep holds,
	// a span of the same Loader or nil, are shared with it. loaded, which may be called from
	// several goroutines, hears of every block.
	Load(ctx context.Context, start, end, pages int, keep Engine, loaded func(blocks.Info)) (Engine, error)
}

// FromBlocks makes a Loader of the real one.
func FromBlocks(l *blocks.Loader) Loader { return fromBlocks{l} }

type fromBlocks struct{ *blocks.Loader }

func (l fromBlocks) Load(ctx context.Context, start, end, pages int, keep Engine, loaded func(blocks.Info)) (Engine, error) {
	old, _ := keep.(*blocks.Span)
	return l.Loader.Load(ctx, start, end, pages, old, loaded)
}

// NewTrainer makes the workspace of passes.
func (l fromBlocks) NewTrainer(e Engine, longest int) (Trainer, error) {
	return e.(*blocks.Span).NewTrainer(longest)
}

// adapting is a Loader that takes and gives up adapters between loads, while an engine of it
// computes.
type adapting interface {
	// AddAdapter has an engine, and all that are loaded after, hold another adapter. use is its
	// place in Adapters; fits hears what memory it takes, and may refuse it.
	AddAdapter(ctx context.Context, e Engine, a *blocks.AdapterFile, fits func(bytes int64) error) (use int, err error)
	// RemoveAdapter gives one up, and says what memory it took.
	RemoveAdapter(e Engine, use int) (bytes int64)
}

func (l fromBlocks) AddAdapter(ctx context.Context, e Engine, a *blocks.AdapterFile, fits func(bytes int64) error) (use int, err error) {
	return l.Loader.AddAdapter(ctx, e.(*blocks.Span), a, fits)
}

func (l fromBlocks) RemoveAdapter(e Engine, use int) (bytes int64) {
	return l.Loader.RemoveAdapter(e.(*blocks.Span), use)
}

// stripper is an engine that can let go of all but some blocks, for a Load that keeps them.
type stripper interface{ Strip(start, end int) }

// Engine is a loaded span. *blocks.Span is one.
type Engine interface {
	// Step runs rows through blocks [from, to), which lie in the span: in and out are
	// [len(b.Rows)][hidden] and may be the same. use says which of the Loader's adapters
	// each of b.Seqs has: -1 for none; nil: none has any. Not for concurrent use.
	Step(b *tensor.Batch, use []int, from, to int, mode tensor.Mode, in, out []float32) error
	// CopyPages copies KV pages, all layers of them: src[i] to dst[i]. Not concurrently
	// with Step.
	CopyPages(dst, src []int32) error
	// SessionRope is the rotation of sessions of a length, nil where it does not depend on
	// it. Safe for concurrent use, also with Step.
	SessionRope(length int) (tensor.Rope, error)
	// Blocks describes the loaded blocks in order.
	Blocks() []blocks.Info
	// PageBytes is the memory of one KV page over all layers.
	PageBytes() int64
	// Measure runs steps on the blocks for about the given time each and returns tokens
	// per second through one block. Sessions must not be served meanwhile.
	Measure(ctx context.Context, each time.Duration) (blocks.Rates, error)
	Close() error
}

// prompter is an engine whose sessions may have prompts in front of blocks. *blocks.Span is one.
type prompter interface {
	// LoadPrompts puts those of blocks [from, to) on the device; safe beside a step.
	LoadPrompts(values []float32, from, to, rows int) (*blocks.Prompts, error)
	// StepPrompted is Step where prompts has those of each of b.Seqs, nil for none.
	StepPrompted(b *tensor.Batch, use []int, prompts []*blocks.Prompts, from, to int, mode tensor.Mode, in, out []float32) error
}

// grained is an engine that computes multiples of so many rows of a prompt best. *blocks.Span is one.
type grained interface{ Grain() int }

// Directory is where servers find each other.
type Directory interface {
	// View is the present snapshot of a model's servers.
	View(ctx context.Context, uid swarm.UID) (swarm.View, error)
	// Announce publishes what this server says of itself; the directory sets the
	// sequence number and the times, and signs.
	Announce(ctx context.Context, r swarm.Record) error
	// Accept verifies a signed record that a client presents.
	Accept(signed []byte) (*swarm.Record, error)
}

// Dialer opens streams to peers.
type Dialer interface {
	Dial(ctx context.Context, peer swarm.PeerID, proto string) (wire.Stream, error)
}

// Pinger measures round trips.
type Pinger interface {
	Ping(ctx context.Context, peer swarm.PeerID) (time.Duration, error)
}
