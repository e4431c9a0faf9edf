package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"whorl/internal/golden"
	"whorl/swarm/balance"
)

// The bound is above what any placement reaches, and not far.
func TestBound(t *testing.T) {
	sum, n := 0.0, 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 5))
		blocks := 4 + rng.IntN(5)
		var all []machine
		for range 2 + rng.IntN(4) {
			m := machine{most: 1 + rng.IntN(blocks), rate: 10 + 90*rng.Float64()}
			if rng.IntN(3) == 0 {
				m.least = 1 + rng.IntN(m.most)
			}
			all = append(all, m)
		}
		most, real := bound(blocks, all), optimum(blocks, all)
		if real > most*(1+1e-9) {
			t.Errorf("seed %d: %v blocks %+v: a placement gives %v, above the bound %v", seed, blocks, all, real, most)
		}
		if real > 0 {
			sum, n = sum+real/most, n+1
		}
	}
	t.Logf("of %d small swarms the best placement reaches %.2f of the bound on average", n, sum/float64(n))
	// Tiles: three spans of four cover ten blocks, so a third of the machines' rate is the bound.
	var all []machine
	for range 30 {
		all = append(all, machine{most: 4, rate: 25}) // offers 10 to each block
	}
	if got := bound(10, all); got < 99.9 || got > 102 {
		t.Errorf("tiles: %v, want 100", got)
	}
}

// On small swarms ours comes near the best of all placements.
func TestNearOptimum(t *testing.T) {
	s := small(30)
	t.Logf("%d small swarms: %.3f of the best placement on average, %.2f at worst", len(s), average(s), s[0])
	if average(s) < 0.85 {
		t.Errorf("%.3f of the best placement on average", average(s))
	}
}

// Runs of one seed are alike to the last move; the text tells what happened.
func TestGoldens(t *testing.T) {
	for _, name := range []string{"together", "thin"} {
		sc, err := BuiltIn(name)
		if err != nil {
			t.Fatal(err)
		}
		r := Run(sc, ours{balance.DefaultConfig()}, sc.Seed)
		text := r.Text() + strings.Join(r.Lines, "\n") + "\n"
		if name == "together" { // the long one is not run twice
			if again := Run(sc, ours{balance.DefaultConfig()}, sc.Seed); again.Text() != r.Text() {
				t.Errorf("%s: two runs of one seed differ", name)
			}
		}
		golden.Check(t, "testdata/"+name+".golden", text)
	}
}

// Started together, all of 30 blocks are held, by every rule but those without intents.
func TestTogether(t *testing.T) {
	sc, err := BuiltIn("together")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"ours": true, "greedy": false} {
		rule, err := RuleOf(name)
		if err != nil {
			t.Fatal(err)
		}
		if r := Run(sc, rule, 1); (r.Samples[0].Held == 30) != want {
			t.Errorf("%s: %d of 30 held after a minute", name, r.Samples[0].Held)
		}
	}
}

// What befalls a swarm is the same whatever the policy does.
func TestSameTraces(t *testing.T) {
	sc, err := BuiltIn("thin")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, name := range []string{"ours", "greedy", "random"} {
		rule, _ := RuleOf(name)
		w := newWorld(sc, rule, 3)
		w.run()
		var lives []string
		for _, s := range w.servers {
			lives = append(lives, fmt.Sprint(s.life, s.up, s.since))
		}
		seen = append(seen, strings.Join(lives, " "))
	}
	if seen[0] != seen[1] || seen[1] != seen[2] {
		t.Errorf("lives differ:\n%s", strings.Join(seen, "\n"))
	}
}

// A scenario that makes no sense is told where and why.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                                             "blocks 0, want 1 to",
		"blocks 8":                                     "0 servers, want 1 to",
		"blocks x\nservers 1":                          "line 1",
		"blocks 8 9\nservers 1":                        "one word too many",
		"blocks 8\nservers":                            "a value is missing",
		"blocks 8\nservers many":                       "want their number first",
		"blocks 8\nservers 1 colour red":               `"colour" is nothing that they have`,
		"blocks 8\nservers 1 span 9-3":                 "9 is above 3",
		"blocks 8\nservers 1 span 0":                   "need a span",
		"blocks 8\nservers 1 rate NaN":                 "is no number",
		"blocks 8\nservers 1 night 2":                  "shares of 1",
		"blocks 8\nservers 99999":                      "99999 servers",
		"blocks 8\nservers 1\nlength 1m":               "a length of 1m0s with 30m0s",
		"blocks 8\nservers 1\nat noon kill 1":          "line 3",
		"blocks 8\nservers 1\nat 1h dance 1":           `"dance"`,
		"blocks 8\nservers 1\nat 1h kill 2":            "kill of a share of 2",
		"blocks 8\nservers 1\nat 1h slow .5 0":         "slow of a share",
		"blocks 8\nservers 600\nat 1h partition .5 1m": "up to 500",
		"sing":        "a value is missing",
		"sing a song": `"sing" is no statement`,
	} {
		if _, err := Parse("s", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, name := range Names() {
		if sc, err := BuiltIn(name); err != nil || sc.About == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := BuiltIn("../doc"); err == nil {
		t.Error("a scenario outside of the folder")
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		text, _ := builtIn.ReadFile("scenarios/" + name + ".txt")
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if sc, err := Parse("f", text); err == nil && sc.validate() != nil {
			t.Error("valid and then not")
		}
	})
}

// Loads that come with results spread sessions better than views that are old, and no herd runs to and fro
// after them.
func TestLoadsWithResults(t *testing.T) {
	for _, stale := range []int{200, 100, 40, 10} {
		old, fresh := herd(8, 400, stale, true, false), herd(8, 400, stale, true, true)
		t.Logf("views of %d %%: the fullest holder has %.2f times the mean, %.2f with loads on results", stale/4, old, fresh)
		if fresh > old+0.01 || fresh > 1.15 {
			t.Errorf("views of %d %%: %.2f times the mean, %.2f with loads on results", stale/4, old, fresh)
		}
	}
}
