package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A shell offers the words of a flag that takes few of them.
func TestShellOffersWords(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"serve --quant", "none int8 nf4"},
		{"serve --yield", "auto on off"},
		{"serve --cpu-tier", "auto avx512 avx2 generic"},
		{"generate --truncate", "no left right"},
		{"gateway --log-level", "debug info warn error"},
		{"tune --task", "causal classify"},
		{"keys add --scope", "read infer operate admin"},
	} {
		got := whorl(t, "", nil, append([]string{"__complete"}, append(strings.Fields(c.line), "")...)...).ok(t).stdout
		if !strings.HasPrefix(strings.Join(strings.Fields(got), " "), c.want) {
			t.Errorf("%s: %q, want %s", c.line, got, c.want)
		}
	}
}

// What a shell offers for a flag stands in its help, and every flag of the table is one of some command.
func TestOfferedWordsAreInHelp(t *testing.T) {
	met := map[string]bool{}
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		check := func(f *pflag.Flag) {
			met[f.Name] = true
			for _, w := range fewWords[f.Name] {
				if !strings.Contains(f.Usage, w) {
					t.Errorf("%s --%s: %q is offered and not in its help: %s", cmd.CommandPath(), f.Name, w, f.Usage)
				}
			}
		}
		cmd.Flags().VisitAll(check)
		cmd.PersistentFlags().VisitAll(check)
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(newRoot(&world{}))
	for name := range fewWords {
		if !met[name] {
			t.Errorf("no command has --%s", name)
		}
	}
}
