package share

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// ClientConfig says whom a Client asks, and how patiently. DefaultClient has sensible values.
type ClientConfig struct {
	Self  swarm.PeerID
	Swarm string // its name
	// Dial opens a stream to a peer.
	Dial func(ctx context.Context, p swarm.PeerID, proto string) (wire.Stream, error)
	// Sources lists who may have something, the best first.
	Sources func() []swarm.PeerID
	// Avoid tells whom not to ask; nil: nobody.
	Avoid func(p swarm.PeerID) bool
	// Blame hears of a peer that sent bytes which are proven wrong; nil: nobody hears.
	Blame func(p swarm.PeerID, detail string)
	// Patience is how long nothing may come before a transfer is given up.
	Patience time.Duration
	// Parallel is how many peers are asked for one object at a time.
	Parallel   int
	Registerer prometheus.Registerer // nil counts in vain
	Log        *slog.Logger          // nil for slog.Default()
}

// DefaultClient waits for whoever starts at the same time.
func DefaultClient() ClientConfig {
	return ClientConfig{Patience: 20 * time.Second, Parallel: 8}
}

const (
	dialTimeout = 10 * time.Second
	// silence is how long a peer that owes something may send no byte: it may be waiting for its
	// own turn.
	silence = 30 * time.Second
	// pieceLimit is how long one piece may take, however steadily it trickles.
	pieceLimit = 3 * time.Minute
	// ahead is how many pieces are asked of a peer before the first has come.
	ahead = 3
	// again is how long a peer that failed, or had nothing, is left alone.
	again = 2 * time.Second
	// maxLacks is how many pieces a peer may not have after all.
	maxLacks = 8
	// look is how often a transfer looks for new peers and overdue pieces.
	look = 200 * time.Millisecond
)

// Client gets objects from peers. Safe for concurrent use.
type Client struct {
	cfg      ClientConfig
	received atomic.Int64
}

// NewClient makes a Client.
func NewClient(cfg ClientConfig) (*Client, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	c := &Client{cfg: cfg}
	if cfg.Registerer != nil {
		got := prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "whorl", Subsystem: "share", Name: "received_bytes_total", Help: "Bytes of model files that other nodes gave, right or wrong.",
		}, func() float64 { return float64(c.received.Load()) })
		if err := cfg.Registerer.Register(got); err != nil {
			return nil, fmt.Errorf("share: %w", err)
		}
	}
	return c, nil
}

// Received is how many bytes of pieces came.
func (c *Client) Received() int64 { return c.received.Load() }

// sources lists whom to ask.
func (c *Client) sources() (out []swarm.PeerID) {
	for _, p := range c.cfg.Sources() {
		if p != c.cfg.Self && (c.cfg.Avoid == nil || !c.cfg.Avoid(p)) {
			out = append(out, p)
		}
	}
	return out
}

// blame reports a peer whose bytes are proven wrong.
func (c *Client) blame(p swarm.PeerID, err error) {
	c.cfg.Log.Warn("a peer sent bytes that are not what their hash names: it is not asked again", "peer", p, "reason", err)
	if c.cfg.Blame != nil {
		c.cfg.Blame(p, err.Error())
	}
}

// Small gets a small object of unknown size, of at most a piece.
func (c *Client) Small(ctx context.Context, root content.Hash) ([]byte, error) {
	var out []byte
	err := c.each(ctx, Object{Root: root}, func(ctx context.Context, v *visit) error {
		if v.have.Size > wire.PieceSize || !v.have.Has(0) && v.have.Size > 0 {
			return fmt.Errorf("%s has an object of %d bytes where a small one is wanted", v.peer.Short(), v.have.Size)
		}
		data, err := v.piece(0)
		if err != nil {
			return err
		}
		if content.Tree(data) != root {
			return wrong(v.peer, "sent %d bytes that are not %s", len(data), root.Short())
		}
		out = append([]byte(nil), data...)
		return nil
	})
	return out, err
}

// Hashes gets the trees of an object's pieces.
func (c *Client) Hashes(ctx context.Context, o Object) ([]content.Hash, error) {
	switch n := o.Pieces(); {
	case n > wire.MaxPieces:
		return nil, fmt.Errorf("an object of %d bytes, at most %d", o.Size, int64(wire.MaxPieces*wire.PieceSize))
	case n == 0:
		return nil, nil
	case n == 1:
		return []content.Hash{o.Root}, nil
	}
	var out []content.Hash
	err := c.each(ctx, o, func(ctx context.Context, v *visit) error {
		var got []content.Hash
		for page := 0; len(got) < o.Pieces(); page++ {
			hashes, err := v.hashes(page)
			if err != nil {
				return err
			}
			if want := min(o.Pieces()-len(got), wire.HashesInPage); len(hashes) != want {
				return wrong(v.peer, "sent %d hashes where there are %d", len(hashes), want)
			}
			got = append(got, hashes...)
		}
		if !o.Fits(got) {
			return wrong(v.peer, "sent hashes that do not make %s", o.Root.Short())
		}
		out = got
		return nil
	})
	return out, err
}

// each asks one peer after another until one gives what is asked for, or patience ends.
func (c *Client) each(ctx context.Context, o Object, ask func(context.Context, *visit) error) error {
	m := &Missing{Object: o}
	seen := map[swarm.PeerID]bool{}
	for began := time.Now(); ; {
		for _, p := range c.sources() {
			err := c.visit(ctx, p, o, ask)
			if err == nil {
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, ErrWrong) {
				c.blame(p, err)
			}
			seen[p], m.Asked, m.Last = true, len(seen), err
		}
		m.Asked = len(seen)
		if time.Since(began) >= c.cfg.Patience {
			return m
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(again, c.cfg.Patience)):
		}
	}
}

// visit dials a peer about an object and lets ask go on.
func (c *Client) visit(ctx context.Context, p swarm.PeerID, o Object, ask func(context.Context, *visit) error) error {
	v, err := c.open(ctx, p, o)
	if err != nil {
		return err
	}
	defer v.close()
	return ask(ctx, v)
}
