package budget

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Penalties are for those who go on asking for what they are refused: to refuse costs too, so that
// they are shut out for a while, before anything is agreed on with them, and twice as long each time
// they begin again. An address has its share of refusals that cost nothing, and a prefix. The clock
// is passed in. Safe for concurrent use.
type Penalties struct {
	address, net Rate          // refusals that have no consequence
	first, most  time.Duration // how long somebody is shut out the first time, and at most

	mu    sync.Mutex // guards all below
	held  map[string]*offender
	total float64 // how often somebody was shut out
}

// offender is an address or a prefix.
type offender struct {
	bucket
	until time.Time     // when it may come in again
	last  time.Duration // for how long it was shut out last; 0: never
}

// NewPenalties makes those that forgive an address and a prefix so many refusals.
func NewPenalties(address, net Rate, first, most time.Duration) *Penalties {
	return &Penalties{address: address, net: net, first: first, most: most, held: map[string]*offender{}}
}

// Refused notes that something was refused to who, as [Rule.Who] names an address, and tells
// whether it is shut out now. Nobody in particular never is.
func (p *Penalties) Refused(who Who, now time.Time) (out bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) > maxPaced {
		p.forget(now)
	}
	address := p.strike("p"+who.Peer, who.Peer, p.address, now)
	return p.strike("n"+who.Net, who.Net, p.net, now) || address
}

// strike takes one refusal from a holder that is not out; mu is held.
func (p *Penalties) strike(key, name string, r Rate, now time.Time) (out bool) {
	if name == "" {
		return false
	}
	o := p.held[key]
	if o == nil {
		o = &offender{bucket: bucket{r.Burst, now}}
		p.held[key] = o
	}
	if now.Before(o.until) {
		return true
	}
	if r.fill(&o.bucket, now); o.left >= 1 {
		o.left--
		return false
	}
	if p.forgiven(o, now) {
		o.last = 0
	}
	o.last = min(max(p.first, 2*o.last), p.most)
	o.until = now.Add(o.last)
	o.left, o.at = r.Burst, o.until
	p.total++
	return true
}

// forgiven tells whether an offender has behaved for as long as anybody is shut out; mu is held.
func (p *Penalties) forgiven(o *offender, now time.Time) bool { return now.Sub(o.until) >= p.most }

// Out tells whether who is shut out, be it for its address or for its prefix.
func (p *Penalties) Out(who Who, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) == 0 {
		return false
	}
	is := func(key string) bool { o := p.held[key]; return o != nil && now.Before(o.until) }
	return is("p"+who.Peer) || is("n"+who.Net)
}

// forget drops who is forgiven and has its share of refusals again, or else the addresses, since their
// prefixes remain, or else all: who has that many prefixes has begun with each of them. mu is held.
func (p *Penalties) forget(now time.Time) {
	for key, o := range p.held {
		r := p.address
		if key[0] == 'n' {
			r = p.net
		}
		if p.forgiven(o, now) && r.after(&o.bucket, now) >= r.Burst {
			delete(p.held, key)
		}
	}
	if len(p.held) <= maxPaced/2 {
		return
	}
	for key := range p.held {
		if key[0] == 'p' {
			delete(p.held, key)
		}
	}
	if len(p.held) > maxPaced/2 {
		clear(p.held)
	}
}

var (
	descOut  = prometheus.NewDesc("whorl_shut_out", "Addresses and prefixes that are shut out at present, since they went on asking for what they were refused.", nil, nil)
	descOuts = prometheus.NewDesc("whorl_shut_out_total", "How often an address or a prefix was shut out.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p *Penalties) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(p, out) }

// Collect implements prometheus.Collector.
func (p *Penalties) Collect(out chan<- prometheus.Metric) {
	now, n := time.Now(), 0
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.held {
		if now.Before(o.until) {
			n++
		}
	}
	out <- prometheus.MustNewConstMetric(descOut, prometheus.GaugeValue, float64(n))
	out <- prometheus.MustNewConstMetric(descOuts, prometheus.CounterValue, p.total)
}
