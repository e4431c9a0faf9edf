package sim

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// What is asked of the bottleneck over the bound: of swarms that stay, and of those that come and go.
const (
	askedSteady = 0.95
	askedChurn  = 0.85
)

// qualityPlays are those of Petals' rule with other thresholds, where its own is never reached.
func qualityPlays() (all []play) {
	for _, name := range []string{"flapping", "slow"} {
		for _, policy := range []string{"petals:0.9", "petals:1"} {
			for seed := range uint64(reportSeeds) {
				all = append(all, play{scenario: name, policy: policy, seed: seed + 1})
			}
		}
	}
	return all
}

// asked writes which trace reaches which line: compared are ours and petals of one trace in turn, mindful ours, mind,
// and mind that loads at once.
func asked(w io.Writer, own, compared, mindful []*Result) {
	fmt.Fprintf(w, "\n## Which trace reaches which line\n\nAsked are %.2f of the bound where machines stay and %.2f where they come and go, and fewer moves and fewer bytes loaded than by Petals' rule.\n\n", askedSteady, askedChurn)
	fmt.Fprintf(w, "| trace | over bound | asked | share of what a mind reaches | moves per server and hour, ours and Petals' | MB loaded per server and hour |\n|---|---|---|---|---|---|\n")
	told := map[string]bool{}
	reach := map[string]float64{}
	for i := 0; i+1 < len(mindful); i += 3 {
		reach[mindful[i].Scenario] = mindful[i].OverBound / mindful[i+1].OverBound
	}
	line := func(r *Result, moves, bytes string) {
		told[r.Scenario] = true
		want := askedChurn
		if strings.HasPrefix(r.Scenario, "steady") {
			want = askedSteady
		}
		share := "-"
		if x, ok := reach[r.Scenario]; ok {
			share = fmt.Sprintf("%.2f", x)
		}
		fmt.Fprintf(w, "| %s | %.3f | %.2f: %s | %s | %s | %s |\n", r.Scenario, r.OverBound, want, yes(r.OverBound >= want), share, moves, bytes)
	}
	ours, theirs := &Result{}, &Result{}
	for i := 0; i+1 < len(compared); i += 2 {
		a, b := compared[i], compared[i+1]
		line(a, fmt.Sprintf("%.3f and %.3f: %s", a.MovesPerHour, b.MovesPerHour, yes(a.MovesPerHour < b.MovesPerHour)),
			fmt.Sprintf("%.0f and %.0f: %s", a.BytesPerHour/1e6, b.BytesPerHour/1e6, yes(a.BytesPerHour < b.BytesPerHour)))
		ours.MovesPerHour, theirs.MovesPerHour = ours.MovesPerHour+a.MovesPerHour, theirs.MovesPerHour+b.MovesPerHour
		ours.BytesPerHour, theirs.BytesPerHour = ours.BytesPerHour+a.BytesPerHour, theirs.BytesPerHour+b.BytesPerHour
	}
	fmt.Fprintf(w, "| these together | | | | %.3f and %.3f: %s | %.0f and %.0f: %s |\n", ours.MovesPerHour, theirs.MovesPerHour, yes(ours.MovesPerHour < theirs.MovesPerHour),
		ours.BytesPerHour/1e6, theirs.BytesPerHour/1e6, yes(ours.BytesPerHour < theirs.BytesPerHour))
	for _, r := range own {
		if r.Policy == "ours" && !told[r.Scenario] && r.Scenario != "together" {
			line(r, "-", "-")
		}
	}
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

// calm writes how many moves there are in each hour where no machine comes or goes once all are there.
func calm(w io.Writer, note func(string)) error {
	fmt.Fprintf(w, "\n## Where nobody comes or goes\n\nMoves in each of eight hours; in *boast* readers come and go all the while, and every third machine gives a third of what it says.\n\n| scenario | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range []string{"steady", "boast"} {
		sc, err := BuiltIn(name)
		if err != nil {
			return err
		}
		note(name + " for eight hours")
		sc.Length = 8 * time.Hour
		rule, _ := RuleOf("ours")
		r := Run(sc, rule, sc.Seed)
		fmt.Fprintf(w, "| %s |", name)
		before := 0
		for _, n := range r.byHour(8) {
			fmt.Fprintf(w, " %d |", n-before)
			before = n
		}
		fmt.Fprintln(w)
	}
	return nil
}

// byHour are the moves until the end of each hour.
func (r *Result) byHour(hours int) []int {
	out := make([]int, hours)
	for i := range out {
		for _, s := range r.Samples {
			if s.At <= time.Duration(i+1)*time.Hour {
				out[i] = s.Moves
			}
		}
	}
	if hours > 0 {
		out[hours-1] = r.Moves
	}
	return out
}
