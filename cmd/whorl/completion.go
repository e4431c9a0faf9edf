package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"whorl/api/calls"
	"whorl/model"
	"whorl/sim"
)

// fewWords are the flags, beside choices, that take one of a few words, or some of them, which a
// shell then offers. Each word stands in the help of its flag.
var fewWords = map[string][]string{
	"activations":    {"auto", "f32"},
	"cpu-tier":       {"auto", "avx512", "avx2", "generic"},
	"device":         {"cpu", "cuda"},
	"dtype":          {"auto", "float32", "bfloat16", "float16"},
	"early-stopping": {"true", "false", "never"},
	"kv-dtype":       {"float32", "bfloat16"},
	"log-format":     {"text", "json"},
	"log-level":      {"debug", "info", "warn", "error"},
	"policy":         sim.Rules(),
	"quant":          append([]string{"none"}, model.Quantisers()...),
	"residual":       {"f32", "bf16"},
	"responses":      {"memory", "database", "off"},
	"source":         {"cache", "swarm", "hub"},
	"throughput":     {"auto", "eval", "dry-run"},
	"tool-format":    calls.Names(),
}

// offerWords has the shell offer the words of flags that take few.
func offerWords(cmd *cobra.Command) {
	offer := func(f *pflag.Flag) {
		words := fewWords[f.Name]
		if c, ok := f.Value.(*choice); ok {
			words = c.words
		}
		if _, there := cmd.GetFlagCompletionFunc(f.Name); there || words == nil {
			return
		}
		offered := slices.Clone(words)
		cmd.RegisterFlagCompletionFunc(f.Name, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return offered, cobra.ShellCompDirectiveNoFileComp
		})
	}
	cmd.Flags().VisitAll(offer)
	cmd.PersistentFlags().VisitAll(offer)
	for _, sub := range cmd.Commands() {
		offerWords(sub)
	}
}
