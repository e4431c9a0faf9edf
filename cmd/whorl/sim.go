package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"whorl/internal/atomicfile"
	"whorl/internal/wiring"
	"whorl/sim"
)

func newSim(w *world) *cobra.Command {
	var (
		policy, plot, report string
		seed                 uint64
		asJSON, moves        bool
	)
	cmd := &cobra.Command{
		Use:   "sim SCENARIO",
		Short: "Play a swarm in virtual time, to judge its policies",
		Long: `Play a swarm in virtual time: machines of all kinds that come and go, placed by the
policy that servers follow, or by another to compare it with. SCENARIO is a file, or one
of those that come with whorl:
` + strings.Join(sim.Names(), ", ") + `.
docs/sim.md has the form of a scenario, and what came out.`,
		Args: func(_ *cobra.Command, args []string) error {
			if report == "" && len(args) != 1 || report != "" && len(args) != 0 {
				return wiring.Usagef("want one SCENARIO, a file or one of %s; or --report alone", strings.Join(sim.Names(), ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if report != "" {
				return writeReport(w, report)
			}
			sc, err := scenario(args[0])
			if err != nil {
				return wiring.Usage(err)
			}
			rule, err := sim.RuleOf(policy)
			if err != nil {
				return wiring.Usage(err)
			}
			if !sourcesOf(cmd).given("seed") {
				seed = sc.Seed
			}
			r := sim.Run(sc, rule, seed)
			if plot != "" {
				if err := atomicfile.Write(plot, []byte(r.Plot()), 0o644); err != nil {
					return err
				}
			}
			if moves {
				for _, line := range r.Lines {
					fmt.Fprintln(w.out, line)
				}
			}
			if asJSON {
				return json.NewEncoder(w.out).Encode(r)
			}
			_, err = fmt.Fprint(w.out, r.Text())
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&policy, "policy", sim.Rules()[0], "who decides: "+strings.Join(sim.Rules(), ", "))
	fs.Uint64Var(&seed, "seed", 1, "draws of the scenario; default: its own")
	fs.StringVar(&plot, "plot", "", "draw the worst-served block and its bound into this SVG file")
	fs.BoolVar(&moves, "moves", false, "print the first 1000 moves with their reasons")
	fs.StringVar(&report, "report", "", "play all scenarios that come with whorl by all policies, and write sim.md and its pictures into this folder")
	fs.BoolVar(&asJSON, "json", false, "print a JSON object on the last line")
	return cmd
}

// scenario opens a file, or what comes with the program.
func scenario(name string) (*sim.Scenario, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return sim.BuiltIn(name)
	}
	if err != nil {
		return nil, err
	}
	return sim.Parse(strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), string(text))
}

// writeReport makes docs/sim.md again.
func writeReport(w *world, folder string) error {
	var b strings.Builder
	picture := func(name, svg string) error {
		return atomicfile.Write(filepath.Join(folder, name), []byte(svg), 0o644)
	}
	if err := sim.Report(&b, picture, func(what string) { fmt.Fprintln(w.err, what) }); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(folder, "sim.md"), []byte(b.String()), 0o644)
}
