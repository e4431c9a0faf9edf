package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

// newInvite is `whorl invite`.
func newInvite(w *world) *cobra.Command {
	var f adminFlags
	cmd := &cobra.Command{
		Use:   "invite",
		Short: "Print an invitation to the swarm of a node of this machine",
		Long: `Print one word with all that others need to join the swarm of a node that runs here, and
to check what they fetch: others give it to ` + "`whorl join`, and to chat, generate, score and gateway" + `
in place of MODEL. The invitation to a private swarm holds its key: keep it secret.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var i invitation
			if err := f.into(cmd.Context(), http.MethodPost, v1+"/invitations", nil, &i); err != nil {
				return err
			}
			if f.json {
				return printJSON(w.out, i)
			}
			if i.Secret {
				fmt.Fprintln(w.err, "This invitation holds the key of a private swarm: whoever has it can join. Keep it secret.")
			}
			_, err := fmt.Fprintln(w.out, i.Invitation)
			return err
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// invitation is what the admin listener answers.
type invitation struct {
	Invitation string   `json:"invitation"`
	Swarm      string   `json:"swarm"`
	Peers      []string `json:"peers"`
	Manifest   string   `json:"manifest"`
	Model      string   `json:"model"`
	Secret     bool     `json:"secret"`
}
