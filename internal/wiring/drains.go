package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"whorl/internal/atomicfile"
	"whorl/internal/operations"
	"whorl/server"
	"whorl/swarm"
)

// drains is whether the operator wants no sessions on the node. A drain stays one until it is
// resumed, also where the process ends in between: a machine that was drained for a new disk
// does not take sessions because it was switched off and on.
type drains struct {
	mu      sync.Mutex // guards all below, and that the server does what they say
	path    string     // "" keeps it in memory alone
	drained *swarm.Drained
	server  *server.Server // nil until there is one
}

// maxDrained bounds the file, in bytes.
const maxDrained = 64 << 10

// recall reads what an earlier run was told. A file that cannot be read means a drain: somebody
// wanted one, and a node without sessions does no harm.
func (d *drains) recall(path string) {
	d.path = path
	if path == "" {
		return
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		d.drained, err = decodeDrained(data)
	}
	if err != nil {
		slog.Warn("why this node was drained cannot be read: it stays drained until it is resumed", "file", path, "reason", err)
		d.drained = &swarm.Drained{Since: time.Now()}
	}
}

func decodeDrained(data []byte) (*swarm.Drained, error) {
	d := new(swarm.Drained)
	if len(data) > maxDrained {
		return nil, fmt.Errorf("it has more than %d bytes", maxDrained)
	}
	if err := json.Unmarshal(data, d); err != nil {
		return nil, err
	}
	if d.Since.IsZero() {
		return nil, errors.New("it does not say since when")
	}
	return d, nil
}

// status is nil unless the node is drained.
func (d *drains) status() *swarm.Drained {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.drained
}

// serve has a server that is about to begin do as an earlier run was told.
func (d *drains) serve(srv *server.Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server = srv
	if d.drained != nil {
		slog.Warn("this node was drained and stays so: it takes no sessions until it is resumed (whorl node resume)", "since", d.drained.Since, "reason", d.drained.Reason)
		srv.Drain(0)
	}
}

// begin notes a drain, for the next run too, and has the server begin it.
func (d *drains) begin(reason string, within time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := &swarm.Drained{Reason: reason, Since: time.Now().UTC().Truncate(time.Second)}
	if d.drained != nil {
		next.Since = d.drained.Since
	}
	if d.path != "" {
		data, err := json.Marshal(next)
		if err == nil {
			err = atomicfile.Write(d.path, append(data, '\n'), 0o600)
		}
		if err != nil {
			slog.Warn("a drain cannot be kept: it is forgotten when the node ends", "file", d.path, "reason", err)
		}
	}
	d.drained = next
	d.server.Drain(within)
}

// end takes sessions again, in the next run too.
func (d *drains) end() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.path != "" {
		if err := atomicfile.Remove(d.path); err != nil {
			return swarm.Errorf(swarm.CodeInternal, swarm.Again, "the note that this node is drained cannot be removed: %w", err)
		}
	}
	d.drained = nil
	if d.server != nil {
		d.server.Resume()
	}
	return nil
}

// Drain stops new sessions; its work ends when none is left.
func (n *Node) Drain(reason string, within time.Duration) (operations.Work, error) {
	if _, err := n.serving(); err != nil {
		return nil, err
	}
	slog.Info("draining, as the operator asked", "reason", reason)
	n.drains.begin(reason, within)
	return n.emptied, nil
}

// emptied is the work of a drain.
func (n *Node) emptied(ctx context.Context, tell func(operations.Progress)) (any, error) {
	srv, err := n.serving()
	if err != nil {
		return nil, err
	}
	most := 0
	err = srv.Emptied(ctx, func(left int) {
		most = max(most, left)
		tell(operations.Progress{Done: float64(most - left), Total: float64(most), Unit: "sessions"})
	})
	return nil, n.drains.unless(err)
}

// unless ends a drain whose operation was cancelled; the error is that of the operation.
func (d *drains) unless(err error) error {
	if errors.Is(err, operations.ErrCancelled) {
		err = errors.Join(err, d.end())
	}
	return err
}

// stayDrained goes on with the drain of an earlier run, as an operation if it was one when the
// process ended.
func (n *Node) stayDrained() {
	if n.drains.status() == nil {
		return
	}
	n.operations.Continue("drain", func(ctx context.Context, tell func(operations.Progress)) (any, error) {
		tell(operations.Progress{Note: "the node starts"})
		select {
		case <-n.up:
			return n.emptied(ctx, tell)
		case <-ctx.Done():
			return nil, n.drains.unless(context.Cause(ctx))
		}
	})
}

// Resume takes sessions again.
func (n *Node) Resume() error {
	srv, err := n.serving()
	if n.drains.status() == nil && err != nil {
		return err
	}
	slog.Info("taking sessions again, as the operator asked")
	if err := n.drains.end(); err != nil {
		return err
	}
	if srv != nil {
		srv.Tell(context.Background()) // for some seconds at most
	}
	return nil
}
