package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"
)

func newBootstrap(w *world) *cobra.Command {
	var (
		nf    nodeFlags
		hf    httpFlags
		every time.Duration
	)
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Run the node that others start from",
		Long: `Run a node that holds no blocks and answers whoever asks who serves what. Others name
it with --initial-peers.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if nf.printConfig {
				return printConfig(w.out, cmd.Flags(), sourcesOf(cmd))
			}
			if err := checkInert(cmd, bootstrapFlags); err != nil {
				return err
			}
			if every <= 0 {
				return usagef("--refresh-period %v: want more than 0", every)
			}
			return runBootstrap(cmd, &nf, &hf, every)
		},
	}
	nf.add(cmd.Flags())
	hf.add(cmd.Flags(), off, bootstrapAdmin)
	every = 30 * time.Second
	secondsVar(cmd.Flags(), &every, "refresh-period", "time between status lines")
	cmd.Flags().BoolVar(&nf.autoRelay, "use-auto-relay", false, "be reached through relays if nobody can dial this node")
	addInert(cmd.Flags(), bootstrapFlags)
	return cmd
}

func runBootstrap(cmd *cobra.Command, nf *nodeFlags, hf *httpFlags, every time.Duration) error {
	if err := nf.check(cmd); err != nil {
		return err
	}
	if err := hf.check(cmd); err != nil {
		return err
	}
	ctx, n, err := startNode(cmd.Context(), []string{"bootstrap"}, nf, hf)
	if err != nil {
		return err
	}
	defer n.close()
	if err := n.join(ctx); err != nil {
		return ended(ctx, err)
	}
	if err := n.usable(); err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ended(ctx, nil)
		case <-tick.C:
			slog.Info("status", "peers", n.net.host.Connected(), "models", len(n.net.dir.Views()))
		}
	}
}
