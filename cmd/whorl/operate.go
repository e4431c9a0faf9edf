package main

import (
	"net/url"
	"os"
	"path/filepath"
	"time"

	"whorl/internal/wiring"

	"github.com/spf13/cobra"
)

// benchmarkWait is how long `whorl node benchmark` waits for its figures.
const benchmarkWait = time.Minute

// longest is the most that a node waits before it answers.
const longest = 5 * time.Minute

// operate is a command that begins an operation of a node; body may be nil.
func operate(w *world, f *adminFlags, name, short string, wait time.Duration, body func() (any, error)) *cobra.Command {
	cmd := opsCommand(w, f, name, short, noArgs, func([]string) (errand, error) {
		r := errand{method: "POST", path: v1 + "/node/" + name, wait: wait}
		if body != nil {
			var err error
			if r.body, err = body(); err != nil {
				return r, err
			}
		}
		var err error
		r.path, err = waited(r.path, wait)
		return r, err
	})
	waitVar(cmd, &wait)
	return cmd
}

func waitVar(cmd *cobra.Command, wait *time.Duration) {
	cmd.Flags().DurationVar(wait, "wait", *wait, "print it when it has ended, after this `TIME` at most; 0: at once")
}

// waited is the address of something that is waited for.
func waited(path string, wait time.Duration) (string, error) {
	switch {
	case wait < 0 || wait > longest:
		return "", wiring.Usagef("--wait %v: want at most %v; whorl ops show ID --wait goes on", wait, longest)
	case wait == 0:
		return path, nil
	}
	return path + "?" + url.Values{"wait": {wait.String()}}.Encode(), nil
}

// tasks are the commands under `whorl node` that begin operations.
func tasks(w *world, f *adminFlags) []*cobra.Command {
	var reason string
	var deadline time.Duration
	drain := operate(w, f, "drain", "Take no new sessions; those that run go elsewhere", 0, func() (any, error) {
		body := map[string]any{"reason": reason}
		if deadline != 0 {
			if deadline < time.Second {
				return nil, wiring.Usagef("--deadline %v: want at least 1s", deadline)
			}
			body["deadline_s"] = int64(deadline / time.Second)
		}
		return body, nil
	})
	drain.Flags().StringVar(&reason, "reason", "", "why, for the log")
	drain.Flags().DurationVar(&deadline, "deadline", 0, "`TIME` that sessions which run may go on; 0: 10s")
	var dry bool
	var to string
	rebalance := operate(w, f, "rebalance", "Move to the blocks that need this node most, if that pays", 0, func() (any, error) {
		body := map[string]any{}
		if dry {
			body["dry_run"] = true
		}
		if to != "" {
			body["to"] = to
		}
		return body, nil
	})
	rebalance.Flags().BoolVar(&dry, "dry-run", false, "say what would be done, and do nothing")
	rebalance.Flags().StringVar(&to, "to", "", "move to blocks `A:B` in any case")
	each := time.Second
	benchmark := operate(w, f, "benchmark", "Measure what the blocks compute, while they are served", benchmarkWait, func() (any, error) {
		return map[string]any{"seconds": each.Seconds()}, nil
	})
	benchmark.Flags().DurationVar(&each, "for", each, "`TIME` for each kind of step")
	return []*cobra.Command{
		drain, rebalance, benchmark,
		operate(w, f, "resume", "Take sessions again", 0, nil),
		operate(w, f, "restart", "Load the blocks anew", 0, nil),
		opsCommand(w, f, "shutdown", "Drain, say goodbye to the swarm and exit", noArgs, func([]string) (errand, error) {
			return errand{method: "POST", path: v1 + "/node/shutdown"}, nil
		}),
	}
}

func newAdapters(w *world) *cobra.Command {
	f := new(adminFlags)
	list := get(v1 + "/adapters")
	cmd := opsCommand(w, f, "adapters", "List the LoRA adapters that a node of this machine holds, load and unload them", noArgs, list)
	wait, end := time.Minute, time.Minute
	load := opsCommand(w, f, "load DIR|OWNER/NAME", "Load one from a folder or the hub; sessions go on meanwhile", cobra.ExactArgs(1), func(args []string) (errand, error) {
		source := args[0]
		if abs, err := filepath.Abs(source); err == nil && isFolder(source) {
			source = abs // the node may run elsewhere in the tree
		}
		path, err := waited(v1+"/adapters", wait)
		return errand{method: "POST", path: path, body: map[string]string{"source": source}, wait: wait}, err
	})
	waitVar(load, &wait)
	unload := opsCommand(w, f, "unload NAME", "Unload one once no session uses it", cobra.ExactArgs(1), func(args []string) (errand, error) {
		path, err := waited(v1+"/adapters/"+url.PathEscape(args[0]), end)
		return errand{method: "DELETE", path: path, wait: end}, err
	})
	waitVar(unload, &end)
	unload.ValidArgsFunction = f.complete(v1+"/adapters", "name")
	cmd.AddCommand(opsCommand(w, f, "list", "List them", noArgs, list), load, unload)
	f.add(cmd.PersistentFlags())
	return cmd
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func newOps(w *world) *cobra.Command {
	f := new(adminFlags)
	list := get(v1 + "/operations")
	cmd := opsCommand(w, f, "ops", "List what was begun at a node of this machine and takes a while", noArgs, list)
	var wait time.Duration
	show := opsCommand(w, f, "show ID", "Show one", cobra.ExactArgs(1), func(args []string) (errand, error) {
		path, err := waited(v1+"/operations/"+url.PathEscape(args[0]), wait)
		return errand{path: path, wait: wait}, err
	})
	waitVar(show, &wait)
	cancel := opsCommand(w, f, "cancel ID", "Ask one to end", cobra.ExactArgs(1), func(args []string) (errand, error) {
		return errand{method: "DELETE", path: v1 + "/operations/" + url.PathEscape(args[0])}, nil
	})
	show.ValidArgsFunction, cancel.ValidArgsFunction = f.complete(v1+"/operations", "id"), f.complete(v1+"/operations", "id")
	cmd.AddCommand(opsCommand(w, f, "list", "List them, newest first", noArgs, list), show, cancel)
	f.add(cmd.PersistentFlags())
	return cmd
}
