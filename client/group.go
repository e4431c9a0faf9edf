package client

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"whorl/client/chain"
	"whorl/swarm"
	"whorl/swarm/route"
)

// MaxVerify is the most chains that compute one session.
const MaxVerify = 3

// group is what computes a verified session: chains that share no server, each a session of its
// own that nobody else sees. Every step runs on all of them, and its rows count once all gave
// the same bits (convict.go says what happens else). A chain that loses a server goes on with
// another one as any session does, but never with one of the other chains.
type group struct {
	lead     *Session
	planning sync.Mutex // one chain is planned at a time: two must not choose the same server

	mu       sync.Mutex // guards all below; taken after the lead's lock and before a chain's
	members  []*Session
	taken    map[*Session][]swarm.PeerID // servers of each chain, as last planned
	left     map[swarm.PeerID]bool       // servers that the session does not use any more
	over     error
	reroutes int // of chains that are gone

	disputed map[swarm.PeerID]bool // who contradicted the server before it; the lead's goroutine only
}

func newGroup(lead *Session) *group {
	lead.audited = false // its chains are
	return &group{lead: lead, taken: map[*Session][]swarm.PeerID{}, left: map[swarm.PeerID]bool{}, disputed: map[swarm.PeerID]bool{}}
}

// errReshape says that a chain cannot be made whole beside the others, while all of them could be
// laid anew.
var errReshape = swarm.Errorf(swarm.CodePeerLost, swarm.Again, "the chains stand in each other's way")

// begin opens all chains. As with one chain, those that are not there at once may come soon.
func (g *group) begin(ctx context.Context) error {
	t := &g.lead.e.cfg.Timeouts
	for begun := time.Now(); ; {
		err := g.open(ctx)
		if again := swarm.CodeOf(err) == swarm.CodeBlocksMissing || errors.Is(err, errReshape); !again || time.Since(begun) >= t.First {
			return err
		}
		select {
		case <-time.After(t.Backoff):
		case <-g.lead.over:
		case <-ctx.Done():
		}
		if err := g.lead.ended(ctx); err != nil {
			return err
		}
	}
}

// open lays all chains and opens a session on each. If it can, those that there were are closed.
func (g *group) open(ctx context.Context) error {
	g.planning.Lock() // until all are known to be taken
	chains, err := g.disjoint(ctx)
	if err != nil {
		g.planning.Unlock()
		return err
	}
	lost := 0
	for _, m := range g.list() {
		lost += m.rerouted() + 1
		m.Close()
	}
	g.mu.Lock()
	g.reroutes += lost
	clear(g.taken)
	g.mu.Unlock()
	var members []*Session
	for _, hops := range chains {
		m := g.lead.e.newSession(g.lead.opt, g.lead.span, g.lead.adapter)
		m.group, m.first = g, hops
		members = append(members, m)
		g.take(m, hops, false)
	}
	g.planning.Unlock()
	g.mu.Lock()
	g.members = members
	over := g.over
	g.mu.Unlock()
	if over != nil {
		g.close()
		return over
	}
	return each(ctx, members, func(ctx context.Context, _ int, m *Session) error { return m.begin(ctx) })
}

// each does something with all chains at a time. The first error ends the others, which proves
// nothing about their servers.
func each(ctx context.Context, members []*Session, do func(ctx context.Context, i int, m *Session) error) error {
	tasks, ctx := errgroup.WithContext(ctx)
	for i, m := range members {
		tasks.Go(func() error { return do(ctx, i, m) })
	}
	return tasks.Wait()
}

// disjoint finds chains for the session among the servers that it still uses.
func (g *group) disjoint(ctx context.Context) ([][]chain.Hop, error) {
	e, o := g.lead.e, &g.lead.opt
	q, never, err := e.query(ctx, route.Query{
		Range: swarm.Span{Start: 0, End: e.cfg.Manifest.Blocks}, Tokens: o.MaxLength, Prompt: o.Prompt, Sequences: o.Beams,
	}, g.lead.adapter)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	q = q.Without(func(p swarm.PeerID) bool { return g.left[p] })
	g.mu.Unlock()
	chains, err := route.Disjoint(q, o.Verify, e.prefix)
	if err != nil {
		return nil, ofAvoided(ofAdapter(err, g.lead.adapter), never)
	}
	out := make([][]chain.Hop, len(chains))
	for i, c := range chains {
		out[i] = e.hops(q.View, c)
	}
	return out, nil
}

// plan makes the chain of one session whole around the stages that it keeps, of servers that no
// other chain has: if it can of other networks, too.
func (g *group) plan(ctx context.Context, s *Session, kept []chain.Hop, whole bool) ([]chain.Hop, error) {
	g.planning.Lock()
	defer g.planning.Unlock()
	if first := s.first; first != nil {
		s.first = nil
		return first, nil
	}
	var err error
	for _, apart := range []bool{true, false} {
		var hops []chain.Hop
		if hops, err = s.around(ctx, kept, g.without(s, kept, apart)); err == nil {
			g.take(s, hops, whole)
			return hops, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
	if len(kept) == 0 && swarm.CodeOf(err) == swarm.CodeBlocksMissing {
		if _, impossible := g.disjoint(ctx); impossible == nil {
			return nil, errReshape
		}
	}
	return nil, err
}

// others finds servers for some blocks beside a chain of the session; see Session.others.
func (g *group) others(ctx context.Context, s *Session, q route.Query, kept []chain.Hop, hold bool) ([]chain.Hop, error) {
	g.planning.Lock()
	defer g.planning.Unlock()
	hops, err := s.e.plan(ctx, q, s.adapter, s.fit(g.without(s, kept, false)))
	if err == nil && hold {
		g.take(s, hops, true)
	}
	return hops, err
}

// take notes the servers of a chain, besides those that were noted if it may yet stay as it was.
func (g *group) take(s *Session, hops []chain.Hop, besides bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var peers []swarm.PeerID
	if besides {
		peers = g.taken[s]
	}
	for _, h := range hops {
		peers = append(peers, h.Peer)
	}
	g.taken[s] = peers
}

// without tells which servers a chain must not take: its own stages, those of the other chains,
// those that were left, and, if it is to be apart, those in networks of other chains.
func (g *group) without(s *Session, kept []chain.Hop, apart bool) func(swarm.PeerID) bool {
	not, networks := map[swarm.PeerID]bool{}, map[string]bool{}
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.left {
		not[p] = true
	}
	for _, h := range kept {
		not[h.Peer] = true
	}
	for other, peers := range g.taken {
		for _, p := range peers {
			if other != s {
				not[p] = true
				networks[s.e.prefix(p)] = apart
			}
		}
	}
	networks[""] = false
	return func(p swarm.PeerID) bool { return not[p] || networks[s.e.prefix(p)] }
}

// list is the present chains.
func (g *group) list() []*Session {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.members)
}

// advance brings all chains up to the lead's ids, of which those before were there already, and
// puts the rows from want on into the lead's outputs once all chains agree about them.
func (g *group) advance(ctx context.Context, before, want int) error {
	for range maxRounds {
		rows, err := g.compute(ctx, want)
		if errors.Is(err, errReshape) {
			if err = g.open(ctx); err == nil || errors.Is(err, errReshape) {
				continue
			}
		}
		if err != nil {
			return err
		}
		row, odd := differ(rows, g.lead.e.cfg.Manifest.Hidden)
		if row < 0 {
			copy(g.lead.out, rows[0])
			return nil
		}
		if err := g.settle(ctx, want+row, odd); err != nil {
			return err
		}
		g.cut(before)
	}
	return swarm.Errorf(swarm.CodeBadOutput, swarm.Elsewhere,
		"%d chains of servers came to no agreement in %d rounds: nothing of it was shown", g.lead.opt.Verify, maxRounds)
}

// maxRounds is how often a step is computed before it is given up. Each time some server is left.
const maxRounds = 16

// compute runs what the chains lack of the lead's ids. The rows are valid until the next call.
func (g *group) compute(ctx context.Context, want int) ([][]float32, error) {
	g.lead.mu.Lock()
	ids, beams := g.lead.ids, g.lead.beams
	g.lead.mu.Unlock()
	members := g.list()
	rows := make([][]float32, len(members))
	err := each(ctx, members, func(ctx context.Context, i int, m *Session) error {
		m.mu.Lock()
		have := len(m.ids)
		m.beams = beams
		m.beams.parents = slices.Clone(beams.parents)
		m.mu.Unlock()
		var err error
		rows[i], err = m.advance(ctx, ids[have:], want-have)
		return err
	})
	return rows, err
}

// differ is the first row of which not all chains have the same bits, with the chains that no
// majority agrees with about it: all of them if there is none. It is -1 if there is no such row.
func differ(rows [][]float32, hidden int) (row int, odd []int) {
	same := func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }
	for row := range len(rows[0]) / hidden {
		from, to := row*hidden, (row+1)*hidden
		for i := range rows {
			votes := 0
			for k := range rows {
				if slices.EqualFunc(rows[i][from:to], rows[k][from:to], same) {
					votes++
				}
			}
			if 2*votes <= len(rows) {
				odd = append(odd, i)
			}
		}
		if len(odd) > 0 {
			return row, odd
		}
	}
	return -1, nil
}

// cut forgets rows from one on, on all chains.
func (g *group) cut(to int) {
	for _, m := range g.list() {
		m.mu.Lock()
		if to < len(m.ids) {
			m.cut(to)
		}
		m.mu.Unlock()
	}
}

// end has every call of the chains fail from now on.
func (g *group) end(why error) {
	g.mu.Lock()
	g.over = why
	g.mu.Unlock()
	for _, m := range g.list() {
		m.end(why)
	}
}

func (g *group) close() {
	for _, m := range g.list() {
		m.Close()
	}
}

// route has the hops of one chain after the other.
func (g *group) route() []swarm.Hop {
	var out []swarm.Hop
	for _, m := range g.list() {
		out = append(out, m.Route()...)
	}
	return out
}

// sums are the routes of all chains so far, and the memory of their journals.
func (g *group) sums() (epoch uint32, bytes int64) {
	for _, m := range g.list() {
		st := m.Status()
		epoch += st.Epoch
		bytes += st.Bytes
	}
	return epoch, bytes
}

// rerouted counts the fail-overs of all chains.
func (g *group) rerouted() int {
	g.mu.Lock()
	n := g.reroutes
	g.mu.Unlock()
	for _, m := range g.list() {
		n += m.rerouted()
	}
	return n
}

// served notes what the servers of all chains have computed.
func (g *group) served() {
	for _, m := range g.list() {
		m.mu.Lock()
		m.served()
		m.mu.Unlock()
	}
}

// receipts are those of all chains.
func (g *group) receipts(ctx context.Context) ([]StageReceipt, error) {
	var out []StageReceipt
	for _, m := range g.list() {
		list, err := m.Receipts(ctx)
		out = append(out, list...)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// covers is Session.Covers of the chain that a receipt is about.
func (g *group) covers(r *StageReceipt) (known bool, err error) {
	for _, m := range g.list() {
		if m.nonce == r.Nonce {
			return m.Covers(r)
		}
	}
	return false, nil
}
