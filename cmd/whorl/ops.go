package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"whorl/internal/wiring"

	"github.com/spf13/cobra"
)

// errand is what an operator's command asks of a node.
type errand struct {
	method, path string
	body         any
	done         string        // printed where the node has nothing to say
	wait         time.Duration // that the node may take to answer, beyond what it always may
}

// opsCommand is one command that asks a node once.
func opsCommand(w *world, f *adminFlags, use, short string, args cobra.PositionalArgs, ask func(args []string) (errand, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := ask(args)
			if err != nil {
				return err
			}
			if r.method == "" {
				r.method = http.MethodGet
			}
			return f.print(cmd.Context(), w, r)
		},
	}
}

// get is a request for what stands at a path, with the words behind it.
func get(path string) func([]string) (errand, error) {
	return func(args []string) (errand, error) {
		p := path
		for _, a := range args {
			p += "/" + url.PathEscape(a)
		}
		return errand{path: p}, nil
	}
}

const v1 = "/api/v1"

func newNode(w *world) *cobra.Command {
	f := new(adminFlags)
	cmd := opsCommand(w, f, "node", "Show a node of this machine, and control it", noArgs, get(v1+"/node"))
	config := opsCommand(w, f, "config [NAME=VALUE ...]", "Show every setting, or change some of the running node", cobra.ArbitraryArgs, func(args []string) (errand, error) {
		if len(args) == 0 {
			return errand{path: v1 + "/node/config"}, nil
		}
		patch := map[string]*string{}
		for _, a := range args {
			name, value, ok := strings.Cut(a, "=")
			if !ok {
				return errand{}, wiring.Usagef("%q: want NAME=VALUE, or NAME= to go back to what the node was started with", a)
			}
			if patch[name] = &value; value == "" {
				patch[name] = nil
			}
		}
		return errand{method: "PATCH", path: v1 + "/node/config", body: patch}, nil
	})
	config.ValidArgsFunction = f.complete(v1+"/node/config", "name")
	cmd.AddCommand(tasks(w, f)...)
	cmd.AddCommand(config,
		opsCommand(w, f, "cache", "Show the KV cache", noArgs, get(v1+"/cache")),
	)
	f.add(cmd.PersistentFlags())
	return cmd
}

func newBlocks(w *world) *cobra.Command {
	f := new(adminFlags)
	cmd := opsCommand(w, f, "blocks [BLOCK]", "List the blocks that a node of this machine holds", cobra.MaximumNArgs(1), get(v1+"/blocks"))
	f.add(cmd.Flags())
	return cmd
}

func newSessions(w *world) *cobra.Command {
	f := new(adminFlags)
	cmd := opsCommand(w, f, "sessions [ID]", "List the sessions of a node of this machine, and end them", cobra.MaximumNArgs(1), get(v1+"/sessions"))
	end := opsCommand(w, f, "end ID", "End a session", cobra.ExactArgs(1), func(args []string) (errand, error) {
		return errand{method: "DELETE", path: v1 + "/sessions/" + url.PathEscape(args[0]), done: "ended"}, nil
	})
	cmd.ValidArgsFunction, end.ValidArgsFunction = f.complete(v1+"/sessions", "id"), f.complete(v1+"/sessions", "id")
	cmd.AddCommand(end)
	f.add(cmd.PersistentFlags())
	return cmd
}

func newPeers(w *world) *cobra.Command {
	f := new(adminFlags)
	cmd := opsCommand(w, f, "peers", "List the nodes that a node of this machine is connected to, and control them", noArgs, get(v1+"/peers"))
	at := func(use, short, method, below, done string) *cobra.Command {
		c := opsCommand(w, f, use, short, cobra.ExactArgs(1), func(args []string) (errand, error) {
			return errand{method: method, path: v1 + "/peers/" + url.PathEscape(args[0]) + below, done: done}, nil
		})
		c.ValidArgsFunction = f.complete(v1+"/peers", "peer_id")
		return c
	}
	var long time.Duration
	var reason string
	ban := opsCommand(w, f, "ban PEER", "Never ask a node for anything, for a while", cobra.ExactArgs(1), func(args []string) (errand, error) {
		if long < time.Second {
			return errand{}, wiring.Usagef("--for %v: want at least 1s", long)
		}
		body := map[string]any{"seconds": int64(long / time.Second), "reason": reason}
		return errand{method: "PUT", path: v1 + "/peers/" + url.PathEscape(args[0]) + "/ban", body: body, done: fmt.Sprintf("banned for %v", long)}, nil
	})
	ban.Flags().DurationVar(&long, "for", 24*time.Hour, "how `LONG`, such as 90m")
	ban.Flags().StringVar(&reason, "reason", "", "why, for those who ask later")
	ban.ValidArgsFunction = f.complete(v1+"/peers", "peer_id")
	unban := at("unban PEER", "Avoid a node no longer", "DELETE", "/ban", "nothing is held against it any more")
	unban.ValidArgsFunction = f.complete(v1+"/peers/standings", "peer_id")
	cmd.AddCommand(ban, unban,
		opsCommand(w, f, "standings", "What the node observed of others, and whom it avoids", noArgs, get(v1+"/peers/standings")),
		opsCommand(w, f, "dial ADDR", "Connect to a node", cobra.ExactArgs(1), func(args []string) (errand, error) {
			return errand{method: "POST", path: v1 + "/peers", body: map[string]string{"addr": args[0]}}, nil
		}),
		at("drop PEER", "Close the connections to a node", "DELETE", "", "closed"),
		at("ping PEER", "Measure the round trip to a node", "POST", "/ping", ""),
	)
	f.add(cmd.PersistentFlags())
	return cmd
}

func newSwarm(w *world) *cobra.Command {
	f := new(adminFlags)
	cmd := opsCommand(w, f, "swarm", "Show the models and servers of the swarm, as a node of this machine sees it", noArgs, get(v1+"/swarm/models"))
	model := opsCommand(w, f, "model MODEL", "One model, by name or id", cobra.ExactArgs(1), get(v1+"/swarm/models"))
	coverage := opsCommand(w, f, "coverage MODEL", "How many servers hold each block of a model", cobra.ExactArgs(1), func(args []string) (errand, error) {
		return errand{path: v1 + "/swarm/models/" + url.PathEscape(args[0]) + "/coverage"}, nil
	})
	server := opsCommand(w, f, "server PEER", "What one server announces", cobra.ExactArgs(1), get(v1+"/swarm/servers"))
	var only string
	servers := opsCommand(w, f, "servers", "The servers", noArgs, func([]string) (errand, error) {
		path := v1 + "/swarm/servers"
		if only != "" {
			path += "?" + url.Values{"model": {only}}.Encode()
		}
		return errand{path: path}, nil
	})
	servers.Flags().StringVar(&only, "model", "", "only those of this `MODEL`")
	var positions int
	dry := opsCommand(w, f, "route MODEL", "Which servers a session would use now, and why not others", cobra.ExactArgs(1), func(args []string) (errand, error) {
		return errand{method: "POST", path: v1 + "/swarm/models/" + url.PathEscape(args[0]) + "/route", body: map[string]int{"positions": positions}}, nil
	})
	dry.Flags().IntVar(&positions, "positions", 512, "length of the session: prompt and answer")
	dry.ValidArgsFunction = f.complete(v1+"/swarm/models", "name")
	cmd.AddCommand(dry)
	var from, step string
	history := opsCommand(w, f, "history MODEL", "The past of a model", cobra.ExactArgs(1), func(args []string) (errand, error) {
		q := url.Values{"from": {from}}
		if step != "" {
			q.Set("step", step)
		}
		return errand{path: v1 + "/swarm/models/" + url.PathEscape(args[0]) + "/history?" + q.Encode()}, nil
	})
	history.Flags().StringVar(&from, "from", "24h", "a `TIME`, or how long ago")
	history.Flags().StringVar(&step, "step", "", "`TIME` between points; default: a 288th of the whole")
	history.ValidArgsFunction = f.complete(v1+"/swarm/models", "name")
	cmd.AddCommand(history, opsCommand(w, f, "events", "What happened in the swarm, newest first", noArgs, get(v1+"/swarm/events")))
	model.ValidArgsFunction, coverage.ValidArgsFunction = f.complete(v1+"/swarm/models", "name"), f.complete(v1+"/swarm/models", "name")
	server.ValidArgsFunction = f.complete(v1+"/swarm/servers", "peer_id")
	cmd.AddCommand(model, coverage, servers, server)
	f.add(cmd.PersistentFlags())
	return cmd
}
