package sched

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/internal/golden"
)

// Engines: 1.1b in q4_0 with two threads, which is about half of it with one; faster ones
// for unequal chains; SmolLM2.
var (
	whole = engine{18.2, 1.5, 3.5}
	half  = whole
	third = engine{12, 1, 2.3}
	quick = engine{6, 0.5, 1.2}
	smol  = engine{2.0, 0.5, 0.62}
)

// forEver is an answer that outlasts a simulation.
const forEver = 1 << 30

// endless lets clients answer for ever, so that nothing disturbs what they settle to.
func endless(list []simClient) []simClient {
	for i := range list {
		list[i].answer = forEver
	}
	return list
}

// The table shows what users get where the queue waits for others, and what where it does
// not: groups (the mean batch of each stage), how long iterations waited on average, tokens
// of all per second, and time between tokens. Answers have 96 tokens, so sessions come and
// go, but in the rows marked "endless".
func TestTables(t *testing.T) {
	var out strings.Builder
	const long = 24 * time.Second
	near := func(n int) []simClient { return clientsOf(n, 1.7, "near") }
	for _, c := range []struct {
		name    string
		engines []engine
		clients func(n int) []simClient
		ns      []int
		gains   []float64 // least gain in rate over not waiting, for each n
	}{
		{"one stage", []engine{whole}, near, []int{1, 2, 3, 4, 8, 16}, []float64{1, 1.6, 1.5, 1.5, 1.35, 1}},
		{"one stage, endless", []engine{whole}, func(n int) []simClient { return endless(near(n)) }, []int{2, 4, 8}, []float64{1.6, 1.55, 1.4}},
		{"one stage, SmolLM2", []engine{smol}, func(n int) []simClient { return clientsOf(n, 1, "near") }, []int{1, 2, 4, 8}, []float64{1, 1.15, 1.1, 1.05}},
		{"one stage, heads of 1 to n ms", []engine{whole}, func(n int) (list []simClient) {
			for i := range n {
				list = append(list, simClient{away: float64(i + 1), label: "spread"})
			}
			return list
		}, []int{2, 4, 8}, []float64{1.6, 1.4, 1.15}},
		{"one stage, all 20 ms away", []engine{whole}, func(n int) []simClient { return clientsOf(n, 41.7, "far") }, []int{1, 4, 8}, []float64{1, 1.05, 1.03}},
		{"one stage, two more at 5 and 20 ms", []engine{whole}, func(n int) []simClient {
			return append(near(n), simClient{away: 11.7, label: "5 ms"}, simClient{away: 41.7, label: "20 ms"})
		}, []int{1, 2, 4, 8}, []float64{1.2, 1.3, 1.3, 1.2}},
		{"two equal stages", []engine{half, half}, near, []int{1, 2, 3, 4, 8, 16}, []float64{1, 0.98, 1.25, 1.25, 1.15, 1.1}},
		{"two equal stages, endless", []engine{half, half}, func(n int) []simClient { return endless(near(n)) }, []int{4, 8}, []float64{1.25, 1.2}},
		{"two stages, the first slow", []engine{half, quick}, near, []int{1, 2, 4, 8}, []float64{1, 1.2, 1.1, 0.98}},
		{"two stages, the second slow", []engine{quick, half}, near, []int{1, 2, 4, 8}, []float64{1, 1.2, 1.1, 0.98}},
		{"three equal stages", []engine{third, third, third}, near, []int{1, 3, 6, 12}, []float64{1, 0.98, 1.15, 1.1}},
		{"three stages, the middle slow", []engine{quick, half, third}, near, []int{3, 6, 12}, []float64{1.2, 1.1, 1.1}},
	} {
		fmt.Fprintf(&out, "%s\n", c.name)
		for i, n := range c.ns {
			var rates [2]float64
			var medians [2]float64
			for k, hasty := range []bool{true, false} {
				w := simulate(uint64(n), c.engines, c.clients(n), hasty, long)
				fmt.Fprintf(&out, "  %-2d %-8s", n, []string{"at once", "waiting"}[k])
				for _, s := range w.stages {
					fmt.Fprintf(&out, "  batch %4.1f waited %3.1f", float64(s.parts)/float64(s.steps), s.waits.Seconds()*1000/float64(s.steps))
				}
				for _, r := range w.results(long/3, long) {
					fmt.Fprintf(&out, "  %s: %.1f tok/s, %.1f and %.1f ms", r.label, r.rate, r.median, r.p95)
					rates[k] += r.rate
					medians[k] = max(medians[k], r.median)
				}
				out.WriteByte('\n')
			}
			if rates[1] < c.gains[i]*rates[0]-0.05 {
				t.Errorf("%s, %d clients: %.1f tok/s by waiting, %.1f without: want %v times as many", c.name, n, rates[1], rates[0], c.gains[i])
			}
			if !strings.Contains(c.name, "more at") && medians[1] > 1.02*medians[0] {
				t.Errorf("%s, %d clients: %.1f ms between tokens by waiting, %.1f without", c.name, n, medians[1], medians[0])
			}
		}
	}
	if runtime.GOARCH == "amd64" { // others may round the simulation's times differently
		golden.Check(t, "testdata/tables.txt", out.String())
	}
}

// The far ones do not slow the near ones by more than a tenth.
func TestFarClientsDoNotSlowNearOnes(t *testing.T) {
	const long = 24 * time.Second
	for _, n := range []int{1, 2, 4} {
		near := clientsOf(n, 1.7, "near")
		alone := simulate(9, []engine{whole}, near, false, long).results(long/3, long)[0]
		mixed := append(slices.Clone(near), simClient{away: 11.7, label: "5 ms"}, simClient{away: 41.7, label: "20 ms"})
		with := simulate(9, []engine{whole}, mixed, false, long).results(long/3, long)[0]
		if with.rate < 0.9*alone.rate || with.median > 1.1*alone.median {
			t.Errorf("%d near ones: %.1f tok/s, %.1f ms alone; %.1f and %.1f with far ones", n, alone.rate, alone.median, with.rate, with.median)
		}
	}
}

// A prompt of 2000 rows beside running answers: these keep more than half of their pace, and
// it takes less than 2.5 times as long as alone. Two prompts share.
func TestPromptsBesideAnswers(t *testing.T) {
	var out strings.Builder
	for _, c := range []struct {
		name    string
		engines []engine
		n       int
		away    float64
	}{
		{"one stage", []engine{whole}, 4, 1.7},
		{"one stage", []engine{whole}, 1, 1.7},
		{"one stage", []engine{whole}, 8, 1.7},
		{"one stage, SmolLM2", []engine{smol}, 4, 1},
		{"one stage, 20 ms away", []engine{whole}, 4, 41.7},
		{"two equal stages", []engine{half, half}, 4, 1.7},
		{"two stages, the first slow", []engine{half, quick}, 4, 1.7},
		{"two stages, the second slow", []engine{quick, half}, 4, 1.7},
	} {
		const at = 5 * time.Second
		prompt := simClient{away: c.away, prompt: 2000, answer: 2, answers: 1, label: "prompt"}
		alone := simulate(3, c.engines, []simClient{prompt}, false, at*6).users[0].prompted[0]
		running := endless(clientsOf(c.n, c.away, "running"))
		usual := simulate(3, c.engines, running, false, at*3).results(at, at*3)[0]
		for prompts := 1; prompts <= 2; prompts++ {
			list := slices.Clone(running)
			prompt.from = at
			for range prompts {
				list = append(list, prompt)
			}
			w := simulate(3, c.engines, list, false, at*10)
			took := 0.0
			for _, u := range w.users[c.n:] {
				if len(u.prompted) == 0 {
					t.Fatalf("%s: a prompt is never done", c.name)
				}
				took = max(took, u.prompted[0])
			}
			r := w.results(at, at+ms(took))[0]
			fmt.Fprintf(&out, "%-27s %d answers: %.1f tok/s, %.1f ms; with %d prompts %.1f tok/s, %.1f and %.1f ms; prompts %.0f ms, one alone %.0f\n",
				c.name, c.n, usual.rate, usual.median, prompts, r.rate, r.median, r.p95, took, alone)
			if r.rate < usual.rate/2 || r.p95 > 2.5*usual.median || took > 2.5*alone*float64(prompts) {
				t.Errorf("%s, %d answers, %d prompts: %.2f of the rate, 95 %% within %.2f of the usual time, the prompt takes %.2f of its time alone",
					c.name, c.n, prompts, r.rate/usual.rate, r.p95/usual.median, took/alone)
			}
		}
	}
	if runtime.GOARCH == "amd64" {
		golden.Check(t, "testdata/prompts.txt", out.String())
	}
}
