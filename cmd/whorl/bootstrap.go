package main

import (
	"github.com/spf13/cobra"
)

func newBootstrap(w *world) *cobra.Command {
	var f bootstrapNode
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Run the node that others start from",
		Long: `Run a node that holds no blocks and answers whoever asks who serves what. Others name
it with --initial-peers.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.node.printConfig {
				return printConfig(w.out, cmd.Flags(), sourcesOf(cmd))
			}
			if err := checkInert(cmd, bootstrapFlags); err != nil {
				return err
			}
			f.node.show = showOf(cmd.Context())
			return f.run(cmd.Context(), sourcesOf(cmd).given)
		},
	}
	addNode(cmd.Flags(), &f.node)
	addHTTP(cmd.Flags(), &f.http, off, bootstrapAdmin)
	f.every = statusEvery
	secondsVar(cmd.Flags(), &f.every, "refresh-period", "time between status lines")
	cmd.Flags().BoolVar(&f.node.autoRelay, "use-auto-relay", false, "be reached through relays if nobody can dial this node")
	addInert(cmd.Flags(), bootstrapFlags)
	return cmd
}
