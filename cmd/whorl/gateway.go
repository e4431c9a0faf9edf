package main

import (
	"github.com/spf13/cobra"

	"whorl/internal/wiring"
)

func newGateway(w *world) *cobra.Command {
	var f wiring.Gateway
	cmd := &cobra.Command{
		Use:   "gateway [MODEL...]",
		Short: "Serve API, WebSocket and dashboard without holding blocks",
		Long: `Serve the HTTP API, the WebSocket and the dashboard. With MODEL, users can generate with
it through the swarm's servers: the gateway computes embeddings and the LM head. Several may be named.
Without, it offers all models of the swarm: what it computes of one is fetched from other
nodes or the hub when somebody asks for it first, and leaves memory when others need the room.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.Node.PrintConfig {
				return printConfig(w.out, cmd.Flags(), sourcesOf(cmd))
			}
			f.Names, f.Node.Show = args, showOf(cmd.Context())
			return f.Run(cmd.Context(), sourcesOf(cmd).given)
		},
	}
	f.Defaults()
	addNode(cmd.Flags(), &f.Node)
	addShare(cmd.Flags(), &f.Share)
	addHTTP(cmd.Flags(), &f.HTTP, f.HTTP.HTTP, f.HTTP.Admin)
	addSessionsHTTP(cmd.Flags(), &f.HTTP)
	addModel(cmd.Flags(), &f.Model)
	addCompute(cmd.Flags(), &f.Compute)
	cmd.Flags().Var(&f.Memory, "memory", "without MODEL: `BYTES` for what this node computes of the swarm's models itself, such as 4GiB; 0: half of what is free")
	return cmd
}
