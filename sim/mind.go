package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/balance"
)

// mind is what no swarm has: one that knows all machines, believes of who left without a word what servers
// believe, and orders every server about at once whenever somebody came or was found gone, however many
// have to move. What it reaches is what placement can reach with that knowledge.
type mind struct{}

func (mind) Name() string         { return "mind" }
func (mind) pilot() pilot         { return &mindPilot{} }
func (mind) beside() bool         { return true }
func (mind) check() time.Duration { return mindCheck }

// mindCheck is how soon a server hears what it is to do.
const mindCheck = 5 * time.Second

// orders are where the mind wants everybody.
type orders struct {
	of    []int // servers that it knows of
	spans map[int]swarm.Span
}

type mindPilot struct{ going *swarm.Intent }

func (p *mindPilot) intent() *swarm.Intent { return p.going }
func (p *mindPilot) loaded(*world)         { p.going = nil }

func (p *mindPilot) next(w *world, s *server) balance.Decision {
	var known []int
	for _, o := range w.servers {
		if o.up || w.now < o.missed {
			known = append(known, o.id)
		}
	}
	if !slices.Equal(known, w.orders.of) {
		w.orders = w.think(known)
	}
	to := w.orders.spans[s.id]
	if s.Span != nil && *s.Span == to {
		return balance.Decision{Span: to, Again: mindCheck}
	}
	p.going = &swarm.Intent{Span: to}
	return balance.Decision{Do: balance.Go, Span: to}
}

// think places servers so that the worst-served block gets as much as it finds, by annealing from where they are.
func (w *world) think(known []int) orders {
	const steps, hot, cold, mild, steep = 20_000, 0.1, 1e-5, 12.0, 110.0
	rng := rand.New(rand.NewPCG(uint64(w.now), 8))
	n := w.sc.Blocks
	at, length, rate := make([]int, len(known)), make([]int, len(known)), make([]float64, len(known))
	t, level := make([]float64, n), 0.0
	put := func(i, start int, sign float64) {
		for b := start; b < start+length[i]; b++ {
			t[b] += sign * rate[i]
		}
	}
	for i, id := range known {
		s := w.servers[id]
		length[i] = s.Most
		rate[i] = balance.Offer(s.Rate, s.Most)
		if old, ok := w.orders.spans[id]; ok {
			at[i] = old.Start
		} else {
			at[i] = rng.IntN(n - length[i] + 1)
		}
		put(i, at[i], 1)
		level += rate[i] * float64(length[i]) / float64(n)
	}
	cost := func(power float64) float64 {
		sum := 0.0
		for _, x := range t {
			sum += math.Pow(max(x/level, 0.02), -power)
		}
		return math.Log(sum) / power
	}
	best, found := slices.Clone(at), slices.Min(t)
	present := 0.0
	for step := range steps {
		share := float64(step) / steps
		power, heat := mild+(steep-mild)*share, hot*math.Pow(cold/hot, share)
		if step%100 == 0 {
			present = cost(power)
		}
		i, j := rng.IntN(len(known)), -1
		was, to := at[i], rng.IntN(n-length[i]+1)
		put(i, was, -1)
		put(i, to, 1)
		other := 0
		if k := rng.IntN(len(known)); k != i && rng.IntN(2) == 0 { // another goes to what it leaves
			j, other = k, at[k]
			put(j, other, -1)
			at[j] = min(was, n-length[j])
			put(j, at[j], 1)
		}
		at[i] = to
		if next := cost(power); next <= present || rng.Float64() < math.Exp((present-next)/heat) {
			present = next
			if worst := slices.Min(t); worst > found*(1+1e-9) {
				best, found = slices.Clone(at), worst
			}
			continue
		}
		put(i, to, -1)
		at[i] = was
		put(i, was, 1)
		if j >= 0 {
			put(j, at[j], -1)
			at[j] = other
			put(j, other, 1)
		}
	}
	o := orders{of: known, spans: map[int]swarm.Span{}}
	for i, id := range known {
		o.spans[id] = swarm.Span{Start: best[i], End: best[i] + length[i]}
	}
	return o
}
