package main

import (
	"github.com/spf13/cobra"

	"whorl/internal/wiring"
)

func newBootstrap(w *world) *cobra.Command {
	var f wiring.Bootstrap
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Run the node that others start from",
		Long: `Run a node that holds no blocks and answers whoever asks who serves what. Others name
it with --initial-peers.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Node.PrintConfig {
				return printConfig(w.out, cmd.Flags(), sourcesOf(cmd))
			}
			if err := checkInert(cmd, bootstrapFlags); err != nil {
				return err
			}
			f.Node.Show = showOf(cmd.Context())
			return f.Run(cmd.Context(), sourcesOf(cmd).given)
		},
	}
	f.Defaults()
	addNode(cmd.Flags(), &f.Node)
	addHTTP(cmd.Flags(), &f.HTTP, f.HTTP.HTTP, f.HTTP.Admin)
	secondsVar(cmd.Flags(), &f.Every, "refresh-period", "time between status lines")
	cmd.Flags().BoolVar(&f.Node.AutoRelay, "use-auto-relay", false, "be reached through relays if nobody can dial this node")
	addInert(cmd.Flags(), bootstrapFlags)
	return cmd
}
