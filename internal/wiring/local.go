package wiring

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"whorl/server"
	"whorl/server/blocks"
	"whorl/server/kvcache"
	"whorl/swarm"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// localPeer names the one server of a local run.
const localPeer swarm.PeerID = "local"

// LocalSwarm is a swarm of one server in this process, without a network: sessions take
// the same path as in a real one, through memory.
type LocalSwarm struct {
	dir    localDirectory
	dial   selfDialer
	Server *server.Server
	stop   context.CancelFunc
	done   chan error
}

// startLocal loads the whole model and returns once it is online. Sessions may have up to
// length tokens in each of so many beams.
func startLocal(ctx context.Context, m *Model, length, beams int) (*LocalSwarm, error) {
	cfg := server.DefaultConfig()
	cfg.Manifest, cfg.Span = m.Manifest, &swarm.Span{Start: 0, End: m.Manifest.Blocks}
	cfg.CacheToken, cfg.MaxLength = beams*kvcache.PagesFor(length)*tensor.PageTokens, length
	cfg.Measuring, cfg.Balance.Settle, cfg.Spare, cfg.Timeouts.Drain = server.MeasureNever, 0, 0, 0
	cfg.Timeouts.Idle, cfg.Timeouts.Session = 0, 0 // nobody else needs the cache
	cfg.Timeouts.Pass = LocalPatience              // a slow machine is waited for
	var err error
	if cfg.Head, err = m.Checkpoint.HeadBytes(m.load); err != nil {
		return nil, Usage(err)
	}
	l := &LocalSwarm{dial: selfDialer{self: localPeer, others: nobody{}}, done: make(chan error, 1)}
	loader, err := blocks.NewLoader(m.Checkpoint, m.Device, blocks.Options{Load: m.load, KV: m.kv, Adapters: m.loras(), StepRows: cfg.StepRows})
	if err != nil {
		return nil, err
	}
	// What a server tells its operator is noise to somebody who asked a question.
	quiet := slog.New(slog.DiscardHandler)
	if slog.Default().Enabled(ctx, slog.LevelDebug) {
		quiet = slog.Default()
	}
	l.Server, err = server.New(cfg, server.Deps{
		Self: localPeer, Loader: server.FromBlocks(loader), Directory: &l.dir, Dialer: &l.dial, Log: quiet,
	})
	if err != nil {
		return nil, err
	}
	l.dial.handle(wire.ProtoSession, l.Server.ServeSession)
	l.dial.handle(wire.ProtoPush, l.Server.ServePush)
	l.dial.handle(wire.ProtoPass, l.Server.ServePass)
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go func() { l.done <- l.Server.Run(runCtx) }()
	select {
	case <-l.Server.Ready():
		return l, nil
	case err := <-l.done:
		stop()
		return nil, err
	case <-ctx.Done():
		stop()
		<-l.done
		return nil, ErrInterrupted
	}
}

// Close ends the server; sessions should be closed before.
func (l *LocalSwarm) Close() error {
	l.stop()
	err := <-l.done
	l.dial.wait()
	return err
}

// localDirectory knows the one record of a local run.
type localDirectory struct {
	mu     sync.Mutex // guards record
	record *swarm.Record
}

func (d *localDirectory) Announce(_ context.Context, r swarm.Record) error {
	now := time.Now()
	r.Protocol, r.Peer, r.Seq = wire.Version, localPeer, uint64(now.UnixMilli())
	r.Issued, r.Expires = now.UnixMilli(), now.Add(swarm.MaxLifetime).UnixMilli()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.record = &r
	return nil
}

func (d *localDirectory) View(_ context.Context, uid swarm.UID) (swarm.View, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.record == nil || d.record.UID != uid {
		return swarm.View{At: time.Now()}, nil
	}
	return swarm.NewView(d.record.Manifest, time.Now(), []swarm.Record{*d.record}), nil
}

func (d *localDirectory) Signed(p swarm.PeerID) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.record == nil || p != localPeer {
		return nil, false
	}
	b, err := json.Marshal(d.record)
	return b, err == nil
}

func (d *localDirectory) Accept(b []byte) (*swarm.Record, error) { return swarm.DecodeRecord(b) }

// Suspect changes nothing: the one server is this process.
func (d *localDirectory) Suspect(swarm.PeerID) {}
