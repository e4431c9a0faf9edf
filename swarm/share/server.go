package share

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/wire"
)

// Limits on what strangers can have this node do at a time.
const (
	// streams are those that are open, sending the bytes of pieces that are being sent.
	streams = 256
	sending = 32 << 20
	// firstFrame is how long a stream may take to say what it wants, idle how long it may ask
	// for nothing, slowPiece how long a slice of a piece may wait to be read.
	firstFrame = 5 * time.Second
	idle       = 60 * time.Second
	slowSlice  = 20 * time.Second
	// slice is what is written at once, so that a pace is felt within a piece.
	slice = 64 << 10
)

// ServerConfig says what a Server gives.
type ServerConfig struct {
	Self       swarm.PeerID
	Swarm      string // its name: others are refused
	Store      *Store
	Pace       *Pace                 // nil: as fast as it goes
	Registerer prometheus.Registerer // nil counts in vain
	Log        *slog.Logger          // nil for slog.Default()
}

// Server gives pieces of the objects of a store. Safe for concurrent use.
type Server struct {
	cfg     ServerConfig
	streams *budget.Pool
	sending *budget.Pool
	sent    atomic.Int64
	buffers sync.Pool
}

// NewServer makes a Server, whose Serve answers the streams of wire.ProtoShare.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &Server{cfg: cfg, streams: budget.New("streams of shared files", streams), sending: budget.New("bytes of shared files", sending)}
	s.buffers.New = func() any { b := make([]byte, wire.PieceSize); return &b }
	if err := budget.Register(cfg.Registerer, s.streams, s.sending); err != nil {
		return nil, fmt.Errorf("share: %w", err)
	}
	if cfg.Registerer != nil {
		sent := prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "whorl", Subsystem: "share", Name: "sent_bytes_total", Help: "Bytes of model files given to other nodes.",
		}, func() float64 { return float64(s.sent.Load()) })
		if err := cfg.Registerer.Register(sent); err != nil {
			return nil, fmt.Errorf("share: %w", err)
		}
	}
	return s, nil
}

// Sent is how many bytes of pieces were given.
func (s *Server) Sent() int64 { return s.sent.Load() }

// Serve answers one stream.
func (s *Server) Serve(ctx context.Context, from swarm.PeerID, st wire.Stream) {
	who := budget.Who{Peer: string(from), Net: wire.Net(st)}
	if s.streams.Take(1, who) != nil {
		return // the asker has other holders
	}
	defer s.streams.Give(1, who)
	defer context.AfterFunc(ctx, func() { st.Reset() })()
	r := wire.NewReader(bufio.NewReader(st))
	defer r.Release()
	r.Charge(ctx, st, budget.Hold{Pool: s.sending, Who: who})
	st.SetDeadline(time.Now().Add(firstFrame))
	h, err := s.first(from, r)
	st.SetDeadline(time.Time{})
	if err != nil {
		if e := (*swarm.Error)(nil); errors.As(err, &e) {
			s.write(st, wire.AppendJSON(nil, wire.TypeFail, wire.NewFail(0, err)))
			st.Close()
		}
		return
	}
	if s.write(st, wire.AppendHave(nil, h.have())) != nil {
		return
	}
	for {
		st.SetReadDeadline(time.Now().Add(idle))
		t, payload, err := r.Next()
		if err != nil {
			return
		}
		switch t {
		case wire.TypeHave:
			err = s.write(st, wire.AppendHave(nil, h.have()))
		case wire.TypeHashes:
			err = s.page(st, h, payload)
		case wire.TypePiece:
			err = s.piece(ctx, st, who, h, payload)
		default:
			return
		}
		if err != nil {
			return
		}
	}
}

// first reads what a stream is about.
func (s *Server) first(from swarm.PeerID, r *wire.Reader) (*held, error) {
	payload, err := r.First(wire.TypeFetch)
	if err != nil {
		return nil, err
	}
	var f wire.Fetch
	if err := wire.DecodeFirst(wire.TypeFetch, payload, s.cfg.Self, from, &f); err != nil {
		return nil, err
	}
	if f.Swarm != s.cfg.Swarm {
		return nil, swarm.Errorf(swarm.CodeWrongSwarm, swarm.Caller, "node %s is of swarm %q, %s of %.100q", s.cfg.Self.Short(), s.cfg.Swarm, from.Short(), f.Swarm)
	}
	h := s.cfg.Store.find(f.Root)
	if h == nil {
		return nil, swarm.Errorf(swarm.CodeNotServed, swarm.Elsewhere, "node %s does not share %s", s.cfg.Self.Short(), f.Root.Short())
	}
	return h, nil
}

// write writes a small frame.
func (s *Server) write(st wire.Stream, frame []byte) error {
	st.SetWriteDeadline(time.Now().Add(slowSlice))
	_, err := st.Write(frame)
	return err
}

// page writes a page of hashes.
func (s *Server) page(st wire.Stream, h *held, payload []byte) error {
	n, rest, err := wire.ParseNumbered(payload)
	if err != nil || len(rest) > 0 {
		return errors.Join(err, wire.ErrFrame)
	}
	from := min(n*wire.HashesInPage, len(h.hashes))
	return s.write(st, wire.AppendHashes(nil, n, h.hashes[from:min(from+wire.HashesInPage, len(h.hashes))]))
}

// piece writes a piece. Its bytes are taken from the budget before they are read, and it goes
// in slices, at the node's pace.
func (s *Server) piece(ctx context.Context, st wire.Stream, who budget.Who, h *held, payload []byte) error {
	n, rest, err := wire.ParseNumbered(payload)
	if err != nil || len(rest) > 0 {
		return errors.Join(err, wire.ErrFrame)
	}
	if n >= h.Pieces() {
		return s.write(st, wire.AppendPieceHeader(nil, n, 0))
	}
	from, to := h.span(n)
	wait, cancel := context.WithTimeout(ctx, slowSlice)
	err = s.sending.Wait(wait, to-from, who)
	cancel()
	if err != nil {
		return err
	}
	defer s.sending.Give(to-from, who)
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	b := (*buf)[:to-from]
	if !h.read(n, b) {
		s.cfg.Log.Debug("a piece is not here any more, or not as it was", "object", h.Root.Short(), "piece", n)
		return s.write(st, wire.AppendPieceHeader(nil, n, 0))
	}
	if err := s.write(st, wire.AppendPieceHeader(nil, n, len(b))); err != nil {
		return err
	}
	for len(b) > 0 {
		part := b[:min(len(b), slice)]
		if err := s.cfg.Pace.Wait(ctx, len(part)); err != nil {
			return err
		}
		if err := s.write(st, part); err != nil {
			return err
		}
		s.sent.Add(int64(len(part)))
		b = b[len(part):]
	}
	return nil
}
