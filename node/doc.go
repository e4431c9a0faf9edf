// Package node runs nodes of a swarm inside other programs, and asks swarms: the server, the gateway and the
// bootstrap that the whorl command runs, by the same code. It is the one package whose API the project's
// versions promise to keep (docs/library.md).
//
// A node is made of options, most of which may stay zero, and lives in Run until its context ends:
//
//	n := node.NewServer(node.ServerOptions{Model: "owner/name", Options: node.Options{InitialPeers: peers}})
//	go func() { ended <- n.Run(ctx) }()
//	<-n.Ready()
//
// What this package does not do: it reads no flags, no config file and no environment, installs no signal
// handler, and leaves priority and memory limit of the process alone. Nodes log through slog's default logger. Errors of
// wrong options name them as the flags of whorl do.
package node
