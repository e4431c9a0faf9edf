package p2p

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	lnet "github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// protoRate has a member of the swarm send bytes or take them, so that the asker learns what
// passes between the two. A stream has some requests, one after the other.
const protoRate = "/whorl/rate/1"

const (
	// rateFirst is the size of the first try in bytes, rateStep how many times as large the next
	// one is, rateMost the largest; one that takes rateEnough is the last.
	rateFirst  = 64 << 10
	rateStep   = 4
	rateMost   = 1 << 20
	rateEnough = 100 * time.Millisecond
	// rateTries is how many requests a stream may have: three sizes each way.
	rateTries = 6
	// rateTime bounds a measurement; rateChunk is what is read and written at a time.
	rateTime  = 4 * time.Second
	rateChunk = 16 << 10
	// rateAnswers is how often a node takes part for others, and ratePeer for one of them.
	rateAnswers = 10 * time.Second
	ratePeer    = 5 * time.Minute
	// rateTick is how often a node looks whether there is something to measure, and rateSoon how
	// long after its start.
	rateTick = 20 * time.Second
	rateSoon = 5 * time.Second
)

// The kinds of requests: a byte, and a number of bytes.
const (
	rateSend = 1 + iota // send me so many bytes
	rateTake            // take so many, and say in 8 bytes how many nanoseconds the second half took
)

const rateHead = 1 + 4

// readRateRequest reads one of a stranger; io.EOF after the last.
func readRateRequest(r io.Reader) (kind byte, size int, err error) {
	var head [rateHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if head[0] != rateSend && head[0] != rateTake || n < rateFirst || n > rateMost {
		return 0, 0, fmt.Errorf("rate: a request of kind %d for %d bytes", head[0], n)
	}
	return head[0], int(n), nil
}

// readRateTaken reads how long the far end took for the second half of what it was sent.
func readRateTaken(r io.Reader) (time.Duration, error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint64(b[:])
	if n > uint64(rateTime) {
		return 0, fmt.Errorf("rate: half of it took %d ns, at most %d", n, rateTime)
	}
	return time.Duration(n), nil
}

// drink reads so many bytes, and tells how long the second half of them took: a connection
// begins slowly.
func drink(r io.Reader, size int) (half time.Duration, err error) {
	buf := make([]byte, rateChunk)
	var middle time.Time
	for left := size; left > 0; {
		n, err := r.Read(buf[:min(left, rateChunk)])
		if left > size/2 && left-n <= size/2 {
			middle = time.Now()
		}
		if left -= n; err != nil && left > 0 {
			return 0, err
		}
	}
	return time.Since(middle), nil
}

// pour writes so many bytes that nothing on the way can make smaller.
func pour(w io.Writer, size int) error {
	buf := make([]byte, rateChunk)
	rng := rand.NewChaCha8([32]byte{byte(size)})
	for left := size; left > 0; left -= rateChunk {
		rng.Read(buf)
		if _, err := w.Write(buf[:min(left, rateChunk)]); err != nil {
			return err
		}
	}
	return nil
}

// perSecond is the rate of the second half of some bytes.
func perSecond(size int, half time.Duration) float64 {
	return float64(size/2) / max(half, time.Microsecond).Seconds()
}

// answerRate is the far end.
func (h *Host) answerRate(_ context.Context, from swarm.PeerID, s wire.Stream) {
	id, err := peer.Decode(string(from))
	if err != nil || !h.member(from) || !h.direct(id) || h.busy() || h.probing() || !h.rateTurn(id, time.Now()) {
		return
	}
	defer h.probe(func() { s.Reset() })()
	s.SetDeadline(time.Now().Add(rateTime))
	if answerRates(s) == nil {
		s.Close()
	}
}

// answerRates answers the requests of a stream, until its end or rateTries of them.
func answerRates(s io.ReadWriter) error {
	for range rateTries {
		kind, size, err := readRateRequest(s)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case kind == rateSend:
			err = pour(s, size)
		default:
			var half time.Duration
			if half, err = drink(s, size); err == nil {
				_, err = s.Write(binary.BigEndian.AppendUint64(nil, uint64(half)))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rateTurn tells whether this node takes part in a measurement for a peer now.
func (h *Host) rateTurn(p peer.ID, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.rateAsked[p]; ok && now.Sub(at) < ratePeer || !h.rateTurns.AllowN(now, 1) {
		return false
	}
	if h.rateAsked[p] = now; len(h.rateAsked) > maxLinks {
		forget(h.rateAsked, func(at time.Time) time.Time { return at }, now.Add(-ratePeer))
	}
	return true
}

// measureLink finds out what passes between this node and a peer, by at most 1.4 MB each way.
func (h *Host) measureLink(ctx context.Context, p peer.ID) (link swarm.Link, err error) {
	ctx, cancel := context.WithTimeout(ctx, rateTime)
	defer cancel()
	defer h.probe(cancel)()
	s, err := h.h.NewStream(lnet.WithNoDial(ctx, "rate"), p, protoRate)
	if err != nil {
		return link, err
	}
	defer s.Reset()
	if isRelayed(s.Conn().RemoteMultiaddr()) {
		return link, errors.New("it is reached through a relay")
	}
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	if link, err = askRates(s); err == nil {
		s.Close()
	}
	return link, err
}

// askRates has the far end send bytes and take them, more of them until they take long enough.
func askRates(s io.ReadWriter) (link swarm.Link, err error) {
	for _, kind := range []byte{rateSend, rateTake} {
		for size := rateFirst; ; size *= rateStep {
			began := time.Now()
			if _, err := s.Write(binary.BigEndian.AppendUint32([]byte{kind}, uint32(size))); err != nil {
				return link, err
			}
			var half time.Duration
			if kind == rateSend {
				half, err = drink(s, size)
				link.Down = perSecond(size, half)
			} else {
				if err = pour(s, size); err == nil {
					half, err = readRateTaken(s)
				}
				link.Up = perSecond(size, half)
			}
			if err != nil {
				return link, err
			}
			if size == rateMost || time.Since(began) >= rateEnough {
				break
			}
		}
	}
	return link, nil
}

// ofUsers are the protocols whose streams run for users.
var ofUsers = map[string]bool{wire.ProtoSession: true, wire.ProtoPush: true, wire.ProtoShare: true, protoMove: true}

// busy tells whether anything runs for users: streams of sessions, of files, or relayed ones.
func (h *Host) busy() bool {
	if h.relaying != nil && h.relaying.open.Load() > 0 {
		return true
	}
	for _, c := range h.h.Network().Conns() {
		for _, s := range c.GetStreams() {
			if ofUsers[string(s.Protocol())] {
				return true
			}
		}
	}
	return false
}

// probe notes a measurement, which a stream of a user ends by stop. The function it returns
// says that it is over.
func (h *Host) probe(stop func()) (over func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probeID++
	id := h.probeID
	h.probes[id] = stop
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.probes, id)
	}
}

// probing tells whether something is being measured here: two at a time would share the line.
func (h *Host) probing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.probes) > 0
}

// hush ends measurements, since a stream of a protocol begins.
func (h *Host) hush(proto string) {
	if !ofUsers[proto] {
		return
	}
	h.mu.Lock()
	var stops []func()
	for _, stop := range h.probes {
		stops = append(stops, stop)
	}
	h.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// Link is what passes between this node and its swarm; false while that was not measured.
func (h *Host) Link() (swarm.Link, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.links.all(time.Now())
}

// linkNews is the share by which a link must change for others to hear of it at once.
const linkNews = 0.2

// WatchLink measures now and then what passes between this node and some members, while nothing
// runs for users, until ctx ends. changed is called when that is news.
func (h *Host) WatchLink(ctx context.Context, changed func()) {
	tick := time.NewTimer(jittered(rateSoon))
	defer tick.Stop()
	var told swarm.Link
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		wait := rateTick
		if h.measureNext(ctx) {
			wait = rateSoon // that one takes part for another, or works for users: ask the next
		}
		tick.Reset(jittered(wait))
		if now, ok := h.Link(); ok && (differs(now.Up, told.Up) || differs(now.Down, told.Down)) {
			h.log.Info("network rate", "link", now.String())
			told = now
			changed()
		}
	}
}

// jittered is a time a quarter longer or shorter, so that nodes that began together do not ask
// each other at the same moments for ever.
func jittered(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2) }

func differs(now, before float64) bool {
	return now > before*(1+linkNews) || now < before*(1-linkNews)
}

// measureNext measures with whoever is next, if anybody is. It tells whether that came to nothing.
func (h *Host) measureNext(ctx context.Context) (failed bool) {
	if h.busy() {
		return false
	}
	if h.probing() {
		return true
	}
	peers := h.helpers(protoRate, maxPending, nil)
	now := time.Now()
	h.mu.Lock()
	known := make(links, len(h.links))
	for p, one := range h.links {
		known[p] = one
	}
	h.mu.Unlock()
	p := known.next(peers, h.zoneOfPeer, now)
	if p == "" {
		return false
	}
	h.mu.Lock()
	h.links.try(p, now)
	h.mu.Unlock()
	link, err := h.measureLink(ctx, p)
	h.log.Debug("network rate of a pair", "peer", p, "link", link.String(), "reason", err)
	if err != nil {
		return true
	}
	at := h.zoneOfPeer(p)
	h.mu.Lock()
	h.links.add(p, link, at, time.Now())
	h.mu.Unlock()
	return false
}

func newRateTurns() *rate.Limiter { return rate.NewLimiter(rate.Every(rateAnswers), 1) }
