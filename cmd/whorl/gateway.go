package main

import (
	"github.com/spf13/cobra"
)

func newGateway(w *world) *cobra.Command {
	var f gatewayFlags
	cmd := &cobra.Command{
		Use:   "gateway [MODEL...]",
		Short: "Serve API, WebSocket and dashboard without holding blocks",
		Long: `Serve the HTTP API, the WebSocket and the dashboard. With MODEL, users can generate with
it through the swarm's servers: the gateway computes embeddings and the LM head. Several may be named.
Without, it offers all models of the swarm: what it computes of one is fetched from other
nodes or the hub when somebody asks for it first, and leaves memory when others need the room.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.node.printConfig {
				return printConfig(w.out, cmd.Flags(), sourcesOf(cmd))
			}
			f.names, f.node.show = args, showOf(cmd.Context())
			return f.run(cmd.Context(), sourcesOf(cmd).given)
		},
	}
	addNode(cmd.Flags(), &f.node)
	addShare(cmd.Flags(), &f.share)
	addHTTP(cmd.Flags(), &f.http, defaultHTTP, defaultAdmin)
	addSessionsHTTP(cmd.Flags(), &f.http)
	addModel(cmd.Flags(), &f.model)
	addCompute(cmd.Flags(), &f.compute)
	cmd.Flags().Var(&f.memory, "memory", "without MODEL: `BYTES` for what this node computes of the swarm's models itself, such as 4GiB; 0: half of what is free")
	return cmd
}
