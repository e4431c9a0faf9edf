package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/balance"
)

// Link is how machines of a kind are connected: pairs are drawn from evenly on a logarithmic scale.
type Link struct {
	RTT  [2]float64 // seconds: its share of each round trip; between two machines it is the sum of theirs
	Mbit [2]float64 // a second, each way; 0: what it passes takes no time
}

// place is where a machine is, and what its line passes.
type place struct {
	rtt  float64 // seconds
	mbit float64
}

// even draws from a pair, evenly on a logarithmic scale.
func even(rng *rand.Rand, p [2]float64) float64 {
	if p[0] <= 0 {
		return p[1] * rng.Float64()
	}
	return p[0] * math.Pow(p[1]/p[0], rng.Float64())
}

// draw places a machine. Where nothing is said of links nothing is drawn: what befalls the machine stays as it was.
func (l Link) draw(rng *rand.Rand) (p place) {
	if l.RTT[1] > 0 {
		p.rtt = even(rng, l.RTT)
	}
	if l.Mbit[1] > 0 {
		p.mbit = even(rng, l.Mbit)
	}
	return p
}

// rows is how many rows of a token its line passes in a second; 0 for any number.
func (p place) rows(sc *Scenario) float64 {
	if p.mbit == 0 || sc.Readers == nil {
		return 0
	}
	return p.mbit * 1e6 / 8 / sc.Readers.Row
}

// round is a round trip between two places.
func (p place) round(o place) time.Duration { return seconds(p.rtt + o.rtt) }

// message is how long so many bytes take from one place to another, in seconds.
func (p place) message(o place, bytes float64) float64 {
	s := (p.rtt + o.rtt) / 2
	if slower := min(wide(p.mbit), wide(o.mbit)); !math.IsInf(slower, 1) {
		s += bytes * 8 / 1e6 / slower
	}
	return s
}

// wide is a rate of which 0 stands for any.
func wide(mbit float64) float64 {
	if mbit == 0 {
		return math.Inf(1)
	}
	return mbit
}

// boasts is what a server says that it offers each block of a span of n.
func (s *server) boasts(n int) float64 {
	x := balance.Offer(s.Rate*s.boast, n)
	if s.Network > 0 {
		x = min(x, s.Network)
	}
	return x
}

// Readers are the sessions of a scenario. Demand says how many come.
type Readers struct {
	Gateways int // that they come through, in turn
	Link     Link
	Tokens   [2]float64 // of an answer, evenly on a logarithmic scale
	Prompt   [2]float64 // positions of a prompt, likewise
	Day      float64    // share by which more come at noon, and fewer at midnight
	Row      float64    // bytes of a token between two machines
	Routes   string     // one of Routes
	Deaf     bool       // placement hears nothing of loads
}

// Routes are the ways in which sessions choose, each with what those before it have: the best of all; a draw of
// their own; loads that come with results; and running sessions that change to a better chain, as the product does.
func Routes() []string { return []string{"best", "draw", "told", "better"} }

func (s *Scenario) readers(words []string) error {
	r := &Readers{Gateways: 8, Tokens: [2]float64{50, 800}, Prompt: [2]float64{50, 1000}, Row: 8192, Routes: "better"}
	pairs := map[string]*[2]float64{"tokens": &r.Tokens, "prompt": &r.Prompt, "rtt": &r.Link.RTT, "mbit": &r.Link.Mbit}
	err := values("readers", words, func(key, value string) (err error) {
		var x float64
		switch {
		case pairs[key] != nil:
			*pairs[key], err = pair(value)
		case key == "routes":
			r.Routes = value
		case key == "gateways":
			x, err = number(value)
			r.Gateways = int(x)
		case key == "day":
			r.Day, err = number(value)
		case key == "row":
			r.Row, err = number(value)
		case key == "deaf":
			x, err = number(value)
			r.Deaf = x > 0
		default:
			return errKey("gateways, tokens, prompt, day, row, rtt, mbit, routes or deaf")
		}
		return err
	})
	s.Readers = r
	return err
}

// maxGateways bounds those of a scenario.
const maxGateways = 1000

func (r *Readers) validate(servers int) error {
	switch {
	case r.Gateways < 1 || r.Gateways > maxGateways:
		return fmt.Errorf("%d gateways, want 1 to %d", r.Gateways, maxGateways)
	case r.Tokens[0] < 1 || r.Tokens[1] > 1e5 || r.Prompt[0] < 1 || r.Prompt[1] > 1e5:
		return fmt.Errorf("readers ask for %g to %g tokens after %g to %g: want 1 to 100000", r.Tokens[0], r.Tokens[1], r.Prompt[0], r.Prompt[1])
	case r.Day > 1 || r.Row < 1:
		return fmt.Errorf("readers with a day of %g and rows of %g bytes: want a share, and a byte at least", r.Day, r.Row)
	case r.Link.Mbit[0] == 0 && r.Link.Mbit[1] > 0:
		return fmt.Errorf("readers need a link above 0 Mbit/s")
	case !slices.Contains(Routes(), r.Routes):
		return fmt.Errorf("readers with routes %q: want one of %v", r.Routes, Routes())
	case servers > maxViews:
		return fmt.Errorf("readers need a view for each server, and that is simulated for up to %d", maxViews)
	}
	return nil
}

// nearest are the round trips, in milliseconds, from a server to those next to it, as its record tells them.
func (w *world) nearest(s *server) map[swarm.PeerID]float64 {
	const most = 64 // swarm.Record
	others := slices.DeleteFunc(slices.Clone(w.servers), func(o *server) bool { return o == s })
	slices.SortStableFunc(others, func(a, b *server) int { return int(s.link.round(a.link) - s.link.round(b.link)) })
	near := map[swarm.PeerID]float64{}
	for _, o := range others[:min(most, len(others))] {
		near[o.Peer] = s.link.round(o.link).Seconds() * 1000
	}
	return near
}
