package api

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"sync"

	"whorl/swarm/budget"
)

const (
	// bodiesBytes is what the bodies of all requests may take together; an address and a
	// prefix have their share of it.
	bodiesBytes = 64 << 20
	// bodyStep is how much a body takes at a time: what has not come takes nothing.
	bodyStep = 64 << 10
	// decodings is how many large bodies are decoded at a time: each may take eight times its
	// size while it is.
	decodings = 4
)

// bodies shares out the memory for requests' bodies.
type bodies struct {
	bytes *budget.Pool
	rule  budget.Rule
	turns chan struct{}
}

func newBodies(exempt []netip.Prefix) *bodies {
	return &bodies{rule: budget.Rule{Exempt: exempt}, bytes: budget.New("bytes of requests", bodiesBytes), turns: make(chan struct{}, decodings)}
}

// of is a request's body that takes its bytes as they come, and keeps them until the request
// is over. Reading fails with a *budget.Full where there is no more.
func (b *bodies) of(r *http.Request) io.ReadCloser {
	p := &paidBody{ReadCloser: r.Body, pool: b.bytes}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		p.who = b.rule.Who(at.Addr())
	}
	context.AfterFunc(r.Context(), p.end)
	return p
}

// decode runs f, with few others at a time if the body is large.
func (b *bodies) decode(size int, f func() error) error {
	if size > bodyStep {
		b.turns <- struct{}{}
		defer func() { <-b.turns }()
	}
	return f()
}

// paidBody is a body whose bytes are taken from a budget. One goroutine reads.
type paidBody struct {
	io.ReadCloser
	pool *budget.Pool
	who  budget.Who
	paid int // bytes that were taken and have not come yet

	mu    sync.Mutex // guards all below
	over  bool
	taken int64
}

func (p *paidBody) Read(b []byte) (int, error) {
	if p.paid == 0 {
		if err := p.pay(); err != nil {
			return 0, err
		}
	}
	n, err := p.ReadCloser.Read(b[:min(len(b), p.paid)])
	p.paid -= n
	return n, err
}

// pay takes the next step.
func (p *paidBody) pay() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return http.ErrBodyReadAfterClose
	}
	if err := p.pool.Take(bodyStep, p.who); err != nil {
		return err
	}
	p.paid, p.taken = bodyStep, p.taken+bodyStep
	return nil
}

// end gives everything back.
func (p *paidBody) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.pool.Give(p.taken, p.who)
	p.taken = 0
}

// Rows and gradients of all users take a hundred-and-twenty-eighth of a node's memory, within bounds: the
// least is a batch of a small model, and more than the most nobody's line carries.
const (
	rowPart      = 128
	minRowBytes  = 64 << 20
	maxRowBytes  = 1 << 30
	someRowBytes = 512 << 20 // of a node without blocks, whose memory nobody plans
)

// RowBytes is what rows and gradients of all users may take of a node with so many bytes of
// memory; 0 where that is not known.
func RowBytes(memory int64) int64 {
	if memory == 0 {
		return someRowBytes
	}
	return min(max(memory/rowPart, minRowBytes), maxRowBytes)
}

// RowsOf is the share of whoever sent a request in the memory for rows, and how much of it one
// request may take.
func (a *API) RowsOf(r *http.Request) (h budget.Hold, most int64) {
	h = budget.Hold{Pool: a.rows, Who: budget.Who{Peer: UserOf(r)}}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		h.Who.Net = a.bodies.rule.Net(at.Addr())
	}
	return h, a.Limits.RowBytes / 2
}

// Memory is about the most that requests take before they are answered, in bytes: their
// bodies, and as much again for what becomes of them; and rows.
func Memory(rows int64) int64 { return 2*bodiesBytes + rows }
