package sim

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"whorl/swarm/balance"
)

//go:embed report.md
var reportHead string

// petalsToo are the scenarios that Petals' rule is played in as well: it takes a thousand
// times as long as ours to decide.
var petalsToo = []string{"volunteers", "departure", "flapping", "thin", "slow"}

// minded are the scenarios that are compared with a mind that knows and moves all at once.
var minded = []string{"departure", "thin"}

// reportSeeds is how many seeds a comparison with Petals' rule takes the mean of.
const reportSeeds = 2

// besideMind says what it is compared with.
const besideMind = `The bound asks for no whole spans, no time to load, and no surprise: nobody reaches it where machines are few and fail without a word. So here is *mind*: it knows
every machine, believes of those that left without a word what servers believe at the median, and whenever somebody came or is found gone it
looks for the best placement of all by annealing and has everybody move at once, however much that loads. That is no proof, since a search may miss the best; but what a swarm like the thin one can reach
lies there, and not at the bound: even servers that load in no time leave some of it, in the time in which nobody can know that a machine is gone, and in which one of two or three holders of a block is missing. Means of 2 seeds.`

// besideQuality says what the other qualities are for.
const besideQuality = `Where Petals' threshold is not reached its servers stay, and nobody can move less. So here it is with higher values of --balance_quality too, up to 1, where every gain counts.`

// play is one run of a report.
type play struct {
	scenario, policy string
	seed             uint64
	instant          bool // nobody takes time to load
	routes           string
	deaf, honest     bool // placement hears of no loads; nobody boasts
}

// playAll runs them all, some at a time, and keeps their order.
func playAll(all []play, note func(string)) ([]*Result, error) {
	out, errs := make([]*Result, len(all)), make([]error, len(all))
	next := make(chan int)
	var work sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for i := range next {
				out[i], errs[i] = all[i].run()
			}
		})
	}
	for i, p := range all {
		note(fmt.Sprintf("%s, policy %s, seed %d", p.scenario, p.policy, p.seed))
		next <- i
	}
	close(next)
	work.Wait()
	return out, errors.Join(errs...)
}

func (p play) run() (*Result, error) {
	sc, err := BuiltIn(p.scenario)
	if err != nil {
		return nil, err
	}
	rule, err := RuleOf(p.policy)
	if err != nil {
		return nil, err
	}
	if p.instant {
		for i := range sc.Groups {
			sc.Groups[i].Load, sc.Groups[i].Beside = [2]float64{}, 1
		}
	}
	if p.routes != "" {
		sc.Readers.Routes, sc.Readers.Deaf = p.routes, p.deaf
	}
	if p.honest {
		for i := range sc.Groups {
			sc.Groups[i].Boast = 1
		}
	}
	r := Run(sc, rule, p.seed)
	if p.instant {
		r.Scenario += ", loaded at once"
	}
	return r, nil
}

// Report writes docs/sim.md: every scenario that comes with the program by every policy.
// picture takes the plots; note is told what is under way.
func Report(w io.Writer, picture func(name, svg string) error, note func(string)) error {
	var plays []play
	for _, name := range Names() {
		sc, err := BuiltIn(name)
		if err != nil {
			return err
		}
		plays = append(plays, play{scenario: name, policy: "ours", seed: sc.Seed})
		if sc.Groups[0].Servers <= maxViews {
			plays = append(plays, play{scenario: name, policy: "greedy", seed: sc.Seed}, play{scenario: name, policy: "random", seed: sc.Seed})
		}
	}
	own := len(plays)
	for _, name := range petalsToo {
		for _, of := range []string{"ours", "petals"} {
			for seed := range uint64(reportSeeds) {
				plays = append(plays, play{scenario: name, policy: of, seed: seed + 1})
			}
		}
	}
	beside := len(plays)
	for _, name := range minded {
		for _, p := range []play{{policy: "ours"}, {policy: "mind"}, {policy: "mind", instant: true}} {
			for seed := range uint64(reportSeeds) {
				p.scenario, p.seed = name, seed+1
				plays = append(plays, p)
			}
		}
	}
	slices.SortStableFunc(plays[:own], func(a, b play) int { return cmp.Compare(a.scenario, b.scenario) })
	results, err := playAll(plays, note)
	if err != nil {
		return err
	}
	base, err := playAll(qualityPlays(), note)
	if err != nil {
		return err
	}
	const head = "| scenario | policy | over bound | worst minute | served | moves per server and hour | MB loaded per server and hour | holes | healed at the median | moves in the last hour |\n|---|---|---|---|---|---|---|---|---|---|\n"
	fmt.Fprintf(w, "%s## What came out\n\n%s", reportHead, head)
	for _, r := range results[:own] {
		row(w, r)
		if r.Policy == "ours" {
			if err := picture("sim-"+r.Scenario+".svg", r.Plot()); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(w, "\n## Beside Petals' rule\n\nMeans of %d seeds; holes and moves of the last hour are sums.\n\n%s", reportSeeds, head)
	compared := means(results[own:beside])
	rows(w, compared)
	fmt.Fprintf(w, "\n%s\n\n%s", besideQuality, head)
	rows(w, means(base))
	fmt.Fprintf(w, "\n## Beside a mind that knows all machines\n\n%s\n\n%s", besideMind, head)
	mindful := means(results[beside:])
	rows(w, mindful)
	asked(w, results[:own], compared, mindful)
	note("calm")
	if err := calm(w, note); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n## Small swarms beside the best placement\n\n")
	note("small swarms")
	s := small(60)
	fmt.Fprintf(w, "%d swarms of 4 or 5 machines and 4 to 8 blocks, all placements tried: an hour after the last came, ours gives the worst-served block %.2f of what the best placement gives on average, and %.2f at worst; single moves do not reach the rest.\n",
		len(s), average(s), s[0])
	fmt.Fprintf(w, "\n## How long a record takes\n\n| servers | half of the records have reached everybody after | nine of ten | 99 of 100 |\n|---|---|---|---|\n")
	for _, n := range []int{8, 30, 125, 250, 500} {
		note(fmt.Sprintf("records among %d servers", n))
		d, err := spreads(n)
		if err != nil {
			return err
		}
		at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(100 * time.Millisecond) }
		fmt.Fprintf(w, "| %d | %v | %v | %v |\n", n, at(0.5), at(0.9), at(0.99))
	}
	fmt.Fprintf(w, "\n## Routes\n\n%s\n", routes())
	note("sessions")
	if err := sessions(w, note); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n## Pictures\n\n")
	for _, name := range Names() {
		fmt.Fprintf(w, "![%s](sim-%s.svg)\n", name, name)
	}
	return nil
}

// means are those of each group of seeds.
func means(all []*Result) (out []*Result) {
	for group := range slices.Chunk(all, reportSeeds) {
		out = append(out, mean(group))
	}
	return out
}

func rows(w io.Writer, all []*Result) {
	for _, r := range all {
		row(w, r)
	}
}

// row is a line of the table.
func row(w io.Writer, r *Result) {
	heal := "-"
	if r.Holes > 0 {
		heal = fmt.Sprintf("%v, worst %v", secs(r.HealMedian), secs(r.HealWorst))
	}
	fmt.Fprintf(w, "| %s | %s | %.3f | %.3f | %.4f | %.3f | %.0f | %d | %s | %d |\n", r.Scenario, r.Policy, r.OverBound, r.WorstOver, r.Served,
		r.MovesPerHour, r.BytesPerHour/1e6, r.Holes, heal, r.MovesLastHour)
}

// mean of several runs; counts are sums.
func mean(all []*Result) *Result {
	out := *all[0]
	for _, r := range all[1:] {
		out.OverBound += r.OverBound
		out.WorstOver += r.WorstOver
		out.Served += r.Served
		out.MovesPerHour += r.MovesPerHour
		out.BytesPerHour += r.BytesPerHour
		out.Holes += r.Holes
		out.HealMedian += r.HealMedian
		out.HealWorst = max(out.HealWorst, r.HealWorst)
		out.MovesLastHour += r.MovesLastHour
	}
	n := float64(len(all))
	for _, x := range []*float64{&out.OverBound, &out.WorstOver, &out.Served, &out.MovesPerHour, &out.BytesPerHour, &out.HealMedian} {
		*x /= n
	}
	return &out
}

// small plays swarms of few machines and compares them with the best placement of all; the
// shares are sorted.
func small(seeds int) (shares []float64) {
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 6))
		blocks := 4 + rng.IntN(5)
		sc := &Scenario{Name: "small", Blocks: blocks, Length: 3 * time.Hour, Warm: 2 * time.Hour}
		for range 4 + rng.IntN(2) {
			span, rate := float64(2+rng.IntN(blocks-2)), 50+100*rng.Float64()
			sc.Groups = append(sc.Groups, Group{Servers: 1, Span: [2]float64{span, span}, Rate: [2]float64{rate, rate}, Load: [2]float64{1, 1}, Start: [2]float64{0, 120}, Shape: 1})
		}
		w := newWorld(sc, ours{balance.DefaultConfig()}, seed)
		w.run()
		if best := optimum(blocks, w.machines()); best > 0 {
			shares = append(shares, w.worst()/best)
		}
	}
	slices.Sort(shares)
	return shares
}

func average(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x
	}
	return sum / float64(max(1, len(xs)))
}

// spreads is how long records took to the last server of a swarm, sorted.
func spreads(n int) ([]time.Duration, error) {
	sc, err := Parse("spread", fmt.Sprintf("blocks 32\nlength 20m\nwarm 1m\nservers %d span 4 start 0s-2m load 1s-5s", n))
	if err != nil {
		return nil, err
	}
	w := newWorld(sc, ours{balance.DefaultConfig()}, 1)
	w.views.(*gossip).spread.on = true
	w.run()
	d := w.views.(*gossip).spread.took
	slices.Sort(d)
	return d, nil
}
