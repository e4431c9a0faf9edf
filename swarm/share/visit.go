package share

import (
	"bufio"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// visit is a stream to a peer about one object. Not for concurrent use.
type visit struct {
	c    *Client
	peer swarm.PeerID
	s    wire.Stream
	r    *wire.Reader
	have wire.Have
	stop func() bool
	// heard is when the last bytes came, in nanoseconds since 1970; others may read it.
	heard atomic.Int64
	limit time.Time // when what is being read must be there
}

// open dials a peer and hears what it has.
func (c *Client) open(ctx context.Context, p swarm.PeerID, o Object) (*visit, error) {
	dctx, cancel := context.WithTimeout(ctx, dialTimeout)
	s, err := c.cfg.Dial(dctx, p, wire.ProtoShare)
	cancel()
	if err != nil {
		return nil, err
	}
	v := &visit{c: c, peer: p, s: s, stop: context.AfterFunc(ctx, func() { s.Reset() })}
	v.r = wire.NewReader(bufio.NewReaderSize(v, 64<<10))
	err = v.ask(wire.AppendJSON(nil, wire.TypeFetch, wire.Fetch{Version: wire.Version, Features: wire.Features, Swarm: c.cfg.Swarm, Root: o.Root}))
	if err == nil {
		err = v.look()
	}
	if err == nil && o.Size > 0 && v.have.Size != o.Size {
		err = v.otherSize(o)
	}
	if err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

// otherSize is no proof that the peer lies: it may be who told of the object that does.
func (v *visit) otherSize(o Object) error {
	return fmt.Errorf("%s says that %s has %d bytes instead of %d", v.peer.Short(), o.Root.Short(), v.have.Size, o.Size)
}

func (v *visit) close() {
	v.stop()
	v.r.Release()
	v.s.Reset()
}

// Read reads from the stream; each byte buys time, up to the limit.
func (v *visit) Read(p []byte) (int, error) {
	until := time.Now().Add(silence)
	if !v.limit.IsZero() && v.limit.Before(until) {
		until = v.limit
	}
	v.s.SetReadDeadline(until)
	n, err := v.s.Read(p)
	if n > 0 {
		v.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

func (v *visit) ask(frame []byte) error {
	v.s.SetWriteDeadline(time.Now().Add(silence))
	_, err := v.s.Write(frame)
	return err
}

// next reads a frame that must be of a type.
func (v *visit) next(want wire.Type) ([]byte, error) {
	v.limit = time.Now().Add(pieceLimit)
	t, payload, err := v.r.Next()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", v.peer.Short(), err)
	case t == wire.TypeFail:
		var f wire.Fail
		if err := wire.Decode(t, payload, &f); err != nil {
			return nil, err
		}
		return nil, f.Err(v.peer)
	case t != want:
		return nil, fmt.Errorf("%w: type %d instead of %d from %s", wire.ErrFrame, t, want, v.peer.Short())
	}
	return payload, nil
}

// look reads what the peer has.
func (v *visit) look() error {
	payload, err := v.next(wire.TypeHave)
	if err != nil {
		return err
	}
	h, err := wire.ParseHave(payload)
	if err != nil {
		return err
	}
	if h.Bits != nil {
		h.Bits = append([]byte(nil), h.Bits...)
	}
	v.have = h
	return nil
}

// hashes asks for a page and reads it.
func (v *visit) hashes(page int) ([]content.Hash, error) {
	if err := v.ask(wire.AppendNumber(nil, wire.TypeHashes, page)); err != nil {
		return nil, err
	}
	payload, err := v.next(wire.TypeHashes)
	if err != nil {
		return nil, err
	}
	n, hashes, err := wire.ParseHashes(payload)
	if err == nil && n != page {
		err = fmt.Errorf("%w: page %d instead of %d from %s", wire.ErrFrame, n, page, v.peer.Short())
	}
	return hashes, err
}

// piece asks for one and reads it.
func (v *visit) piece(n int) ([]byte, error) {
	if err := v.ask(wire.AppendNumber(nil, wire.TypePiece, n)); err != nil {
		return nil, err
	}
	return v.read(n)
}

// read reads a piece that was asked for; it is valid until the next frame.
func (v *visit) read(piece int) ([]byte, error) {
	payload, err := v.next(wire.TypePiece)
	if err != nil {
		return nil, err
	}
	n, data, err := wire.ParseNumbered(payload)
	if err == nil && n != piece {
		err = fmt.Errorf("%w: piece %d instead of %d from %s", wire.ErrFrame, n, piece, v.peer.Short())
	}
	v.c.received.Add(int64(len(data)))
	return data, err
}
