package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	for _, name := range strings.Fields(os.Getenv("TRY")) {
		sc, err := BuiltIn(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, rn := range strings.Fields(os.Getenv("RULES")) {
			rule, _ := RuleOf(rn)
			if o, ok := rule.(ours); ok {
				fmt.Sscan(os.Getenv("GAIN"), &o.cfg.Gain)
				fmt.Sscan(os.Getenv("QUALITY"), &o.cfg.Quality)
				fmt.Sscan(os.Getenv("EAGER"), &o.cfg.Eager)
				fmt.Sscan(os.Getenv("LOOKS"), &o.cfg.Looks)
				fmt.Sscan(os.Getenv("MOVING"), &o.cfg.Moving)
				if d, err := time.ParseDuration(os.Getenv("COOL")); err == nil {
					o.cfg.Cooldown = d
				}
				rule = o
			}
			seeds := 1
			fmt.Sscan(os.Getenv("SEEDS"), &seeds)
			t0 := time.Now()
			var r Result
			for i := range seeds {
				x := Run(sc, rule, sc.Seed+uint64(i))
				n := float64(seeds)
				r.Moves += x.Moves
				r.AlarmMoves += x.AlarmMoves
				r.MovesPerHour += x.MovesPerHour / n
				r.BytesPerHour += x.BytesPerHour / n
				r.Served += x.Served / n
				r.OverBound += x.OverBound / n
				r.WorstOver += x.WorstOver / n
				r.LastOver += x.LastOver / n
				r.HealMedian += x.HealMedian / n
				r.HealWorst = max(r.HealWorst, x.HealWorst)
				r.Holes += x.Holes
				r.HolesOpen += x.HolesOpen
				r.HealWithin += x.HealWithin / n
				r.MovesLastHour += x.MovesLastHour
				r.Lines = x.Lines
			}
			fmt.Printf("%-12s %-7s over %.3f worst %.3f last %.3f served %.4f moves %5d (%d alarm) %.3f/h, MB/h %7.0f, holes %d open %d heal med %.0f worst %.0f within %.2f, last hour %d  [%v]\n", name, rn, r.OverBound, r.WorstOver, r.LastOver, r.Served, r.Moves, r.AlarmMoves, r.MovesPerHour, r.BytesPerHour/1e6, r.Holes, r.HolesOpen, r.HealMedian, r.HealWorst, r.HealWithin, r.MovesLastHour, time.Since(t0).Round(time.Millisecond))
			if os.Getenv("LINES") != "" {
				fmt.Println(strings.Join(r.Lines[:min(len(r.Lines), 40)], "\n"))
			}
		}
	}
}
