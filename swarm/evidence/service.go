package evidence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/proof"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
)

// Limits on what strangers can have this node do at a time.
const (
	// exchanges are those that are answered at a time, reading the bytes of their frames.
	exchanges = 32
	reading   = 1 << 20
	// timeout bounds an exchange.
	timeout = 5 * time.Second
	// fanout is how many peers are told of news at once: they tell theirs.
	fanout = 16
	// maxCursors is how many tellers are remembered with the place where they stopped.
	maxCursors = 1024
)

// Config of a Service. Registerer, Log and Draw may be nil.
type Config struct {
	Self  swarm.PeerID
	Swarm string // its name: others are refused
	// Dial opens a stream to a peer.
	Dial func(ctx context.Context, p swarm.PeerID, proto string) (wire.Stream, error)
	// Peers lists the connected peers that speak wire.ProtoEvidence.
	Peers func() []swarm.PeerID
	// Prefix is the network of a peer's address, "" where that is unknown or says nothing.
	Prefix func(swarm.PeerID) string
	Docket *trust.Docket
	// Check looks into an accusation that a peer told; trust.Unchecked where it cannot. It may take long.
	Check func(ctx context.Context, a *proof.Accusation, teller swarm.PeerID) trust.Finding
	// Every is how often some peer is asked.
	Every      time.Duration
	Draw       func() float64 // numbers from [0, 1) that choose peers; nil for random ones
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// Service is a node's part in telling of liars. Safe for concurrent use.
type Service struct {
	cfg     Config
	log     uint64 // names the docket's list
	turns   *budget.Pool
	reading *budget.Pool
	news    chan struct{} // there is something to tell
	heard   chan struct{} // there is something to look into
	checks  *prometheus.CounterVec

	mu      sync.Mutex // guards all below
	cursors map[swarm.PeerID]cursor
}

// cursor is how far a peer and this node know each other's lists.
type cursor struct{ log, at, told uint64 }

// New makes a Service, whose Serve answers the streams of wire.ProtoEvidence.
func New(cfg Config) (*Service, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Draw == nil {
		cfg.Draw = rand.Float64
	}
	s := &Service{
		cfg: cfg, log: rand.Uint64() | 1, turns: budget.New("exchanges of accusations", exchanges), reading: budget.New("bytes of accusations that are being read", reading),
		news: make(chan struct{}, 1), heard: make(chan struct{}, 1), cursors: map[swarm.PeerID]cursor{},
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "whorl", Name: "accusations_total", Help: "Accusations of servers that other nodes told, by what this node found itself, or why it did not hear of them.",
		}, []string{"result"}),
	}
	if err := budget.Register(cfg.Registerer, s.turns, s.reading); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(s.checks); err != nil {
			return nil, fmt.Errorf("evidence: %w", err)
		}
	}
	return s, nil
}

// Memory is the most that the service takes because of others, in bytes.
func Memory() int64 { return 2*reading + 400<<10 }

// Accuse tells others of an accusation of this node's own making.
func (s *Service) Accuse(a proof.Accusation) {
	if s.cfg.Docket.Prove(&a, time.Now()) {
		poke(s.news)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run looks into what was heard and tells what was found, until ctx ends, whose error it returns.
func (s *Service) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { s.looks(ctx) })
	tick := time.NewTimer(1) // a newcomer asks at once; no timer of 0: scripts/check.sh says why
	defer tick.Stop()
	for asks := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.news:
			s.exchangeWith(ctx, fanout)
		case <-tick.C:
			next := s.cfg.Every
			if peers := s.exchangeWith(ctx, 1); peers > 0 {
				asks++
			}
			if asks < 3 { // one may know nothing, or say so
				next = min(next, time.Second)
			}
			tick.Reset(next)
		}
	}
}

// looks looks into accusations, one after the other.
func (s *Service) looks(ctx context.Context) {
	for ctx.Err() == nil {
		a, teller, wait, ok := s.cfg.Docket.Next(time.Now())
		if !ok {
			var timer <-chan time.Time
			if !wait.IsZero() {
				timer = time.After(max(time.Until(wait), 1))
			}
			select {
			case <-ctx.Done():
			case <-s.heard:
			case <-timer:
			}
			continue
		}
		found := s.cfg.Check(ctx, &a, teller)
		s.checks.WithLabelValues(found.String()).Inc()
		s.cfg.Log.Debug("looked into an accusation", "of", a.Server, "told by", teller, "receipt", a.Signed(), "found", found.String())
		if s.cfg.Docket.Settle(&a, found, time.Now()) {
			poke(s.news)
		}
	}
}

// exchangeWith exchanges accusations with up to n connected peers, drawn by lot, and returns how
// many answered.
func (s *Service) exchangeWith(ctx context.Context, n int) (heard int) {
	peers := s.cfg.Peers()
	slices.Sort(peers)
	for i := range peers {
		k := i + int(s.cfg.Draw()*float64(len(peers)-i))
		peers[i], peers[k] = peers[k], peers[i]
	}
	peers = peers[:min(n, len(peers))]
	ok := make([]bool, len(peers))
	var all sync.WaitGroup
	for i, p := range peers {
		all.Go(func() {
			if err := s.exchange(ctx, p); err != nil {
				s.cfg.Log.Debug("an exchange of accusations failed", "peer", p, "reason", err)
			}
			ok[i] = true
		})
	}
	all.Wait()
	for _, o := range ok {
		if o {
			heard++
		}
	}
	return heard
}

// exchange tells a peer what is new here and hears what is new there.
func (s *Service) exchange(ctx context.Context, p swarm.PeerID) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	st, err := s.cfg.Dial(ctx, p, wire.ProtoEvidence)
	if err != nil {
		return err
	}
	defer st.Reset()
	defer context.AfterFunc(ctx, func() { st.Reset() })()
	st.SetDeadline(time.Now().Add(timeout))
	s.mu.Lock()
	c := s.cursors[p]
	s.mu.Unlock()
	list, at := s.cfg.Docket.Tell(c.told, time.Now())
	frame := wire.AppendJSON(nil, wire.TypeHear, wire.Hear{Version: wire.Version, Features: wire.Features, Swarm: s.cfg.Swarm, Log: c.log, Since: c.at})
	frame = (&wire.Accusations{Log: s.log, At: at, All: list}).AppendFrame(frame)
	if _, err := st.Write(frame); err != nil {
		return err
	}
	r := wire.NewReader(bufio.NewReader(st))
	defer r.Release()
	r.Charge(ctx, nil, budget.Hold{Pool: s.reading, Who: budget.Who{Peer: string(p)}})
	t, payload, err := r.Next()
	if err != nil {
		return err
	}
	if t == wire.TypeFail {
		var f wire.Fail
		if err := wire.Decode(t, payload, &f); err != nil {
			return err
		}
		return f.Err(p)
	}
	err = s.take(p, t, payload)
	s.note(p, func(c *cursor) { c.told = max(c.told, at) })
	return err
}

// note changes what is remembered of a peer.
func (s *Service) note(p swarm.PeerID, change func(*cursor)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.cursors[p]
	if !ok && len(s.cursors) >= maxCursors {
		for q := range s.cursors { // any: who is asked again tells more than it needs, once
			delete(s.cursors, q)
			break
		}
	}
	change(&c)
	s.cursors[p] = c
}

// take hears what a peer told, and remembers how far it is known.
func (s *Service) take(p swarm.PeerID, t wire.Type, payload []byte) error {
	if t != wire.TypeTold {
		return fmt.Errorf("%w: type %d where accusations should be", wire.ErrFrame, t)
	}
	a, err := wire.ParseAccusations(payload)
	if err != nil {
		return err
	}
	all := true
	for _, raw := range a.All {
		err := s.cfg.Docket.Hear(raw, p, s.cfg.Prefix(p), time.Now())
		all = all && !errors.Is(err, trust.ErrMany) // there is room later
		if err == nil {
			poke(s.heard)
			continue
		}
		s.checks.WithLabelValues("refused").Inc()
		s.cfg.Log.Debug("an accusation is not heard", "told by", p, "reason", err)
	}
	s.note(p, func(c *cursor) {
		if c.log != a.Log {
			c.log, c.at = a.Log, 0
		}
		if all { // answers may overtake each other
			c.at = max(c.at, a.At)
		}
	})
	return nil
}

// Serve answers one exchange.
func (s *Service) Serve(ctx context.Context, from swarm.PeerID, st wire.Stream) {
	who := budget.Who{Peer: string(from), Net: wire.Net(st)}
	if s.turns.Take(1, who) != nil {
		return // the asker has other tellers
	}
	defer s.turns.Give(1, who)
	defer context.AfterFunc(ctx, func() { st.Reset() })()
	st.SetDeadline(time.Now().Add(timeout))
	r := wire.NewReader(bufio.NewReader(st))
	defer r.Release()
	r.Charge(ctx, st, budget.Hold{Pool: s.reading, Who: who})
	payload, err := r.First(wire.TypeHear)
	if err != nil {
		return
	}
	var h wire.Hear
	err = wire.DecodeFirst(wire.TypeHear, payload, s.cfg.Self, from, &h)
	if err == nil && h.Swarm != s.cfg.Swarm {
		err = swarm.Errorf(swarm.CodeWrongSwarm, swarm.Caller, "node %s is of swarm %q, %s of %.100q", s.cfg.Self.Short(), s.cfg.Swarm, from.Short(), h.Swarm)
	}
	if err != nil {
		if e := (*swarm.Error)(nil); errors.As(err, &e) {
			st.Write(wire.AppendJSON(nil, wire.TypeFail, wire.NewFail(0, err)))
			st.Close()
		}
		return
	}
	t, payload, err := r.Next()
	if err != nil {
		return
	}
	if s.take(from, t, payload) != nil {
		return
	}
	r.Release()
	since := h.Since
	if h.Log != s.log {
		since = 0
	}
	list, at := s.cfg.Docket.Tell(since, time.Now())
	if _, err := st.Write((&wire.Accusations{Log: s.log, At: at, All: list}).AppendFrame(nil)); err == nil {
		st.Close()
	}
}
