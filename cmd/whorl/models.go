package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"whorl/internal/wiring"
	"whorl/model/families"
	"whorl/model/hub"
	"whorl/model/weights"
	"whorl/swarm"
	"whorl/web/view"
)

// newModels is `whorl models`: what lies in the hub's cache.
func newModels(w *world) *cobra.Command {
	root := &cobra.Command{
		Use:   "models",
		Short: "List, fetch and delete models of the hub",
		Long: `List, fetch and delete the models of a hub that lie on this machine, in the cache that
the hub's own client uses (HF_HOME, HF_HUB_CACHE).`,
		Args: knownCommand,
	}
	var asJSON bool
	list := &cobra.Command{
		Use: "list", Short: "List the models in the cache, those used last first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return listModels(cmd.Context(), w, asJSON) },
	}
	list.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	root.RunE = func(cmd *cobra.Command, _ []string) error { return listModels(cmd.Context(), w, asJSON) }
	root.Flags().BoolVar(&asJSON, "json", false, "as JSON")

	var get wiring.HubOptions
	var span string
	fetch := &cobra.Command{
		Use: "get MODEL", Short: "Fetch a model, or some of its blocks, before they are needed", Args: oneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return fetchModel(cmd.Context(), &get, w, args[0], span)
		},
	}
	addHub(fetch.Flags(), &get)
	fetch.Flags().StringVar(&span, "blocks", "", "`A:B`: only blocks A to B-1; default: all of the model, checked against the hub's hashes")

	var foreign bool
	rm := &cobra.Command{
		Use: "rm MODEL", Short: "Delete what whorl fetched of a model", Args: oneModel,
		Long: `Delete what whorl fetched of a model, of one revision (owner/name@revision) or of all.
Files that a process of whorl has open stay, and so do files that another client fetched, unless
--foreign says that they are to go too: whether that client uses them cannot be seen. A model that
came from other nodes is named whorl/HASH, as --json of the list shows it.`,
		RunE: func(cmd *cobra.Command, args []string) error { return removeModel(cmd.Context(), w, args[0], foreign) },
	}
	rm.Flags().BoolVar(&foreign, "foreign", false, "delete files that another client fetched, too")
	root.AddCommand(list, fetch, rm)
	return root
}

// modelRow is a model as `whorl models --json` shows it.
type modelRow struct {
	hub.Model
	Swarm  string `json:"swarm_name,omitempty"` // of a model that came from other nodes: what they call it
	Blocks string `json:"blocks"`               // that are there whole, "" if it cannot be told
}

func listModels(ctx context.Context, w *world, asJSON bool) error {
	cfg, err := new(wiring.HubOptions).Config(ctx)
	if err != nil {
		return err
	}
	cfg.Offline, cfg.Peek = true, true // a list asks nobody and uses nothing
	h := hub.New(cfg)
	all, err := h.Models()
	if err != nil {
		return err
	}
	rows := []modelRow{}
	for _, m := range all {
		rows = append(rows, modelRow{m, peersName(h, m), blocksHere(ctx, h, m)})
	}
	if asJSON {
		return printJSON(w.out, rows)
	}
	t := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tREVISION\tON DISK\tOF\tBLOCKS\tUSED")
	for _, m := range rows {
		of := bytesText(m.Size)
		if m.Size == 0 {
			of = "-"
		}
		if m.Swarm != "" {
			m.Repo, m.Revision = m.Repo[:min(len(m.Repo), 18)]+"... ("+view.Cut(m.Swarm, 60)+")", "from nodes"
		}
		fmt.Fprintf(t, "%s\t%.12s\t%s\t%s\t%s\t%s\n", m.Repo, m.Revision, bytesText(m.Bytes), of, m.Blocks, m.Used.Format(time.DateTime))
	}
	return t.Flush()
}

// peersName is what nodes call a model that came from them; "" for models of a hub.
func peersName(h *hub.Hub, m hub.Model) string {
	for _, raw := range h.Notes(m, wiring.NoteManifest) {
		if man, err := swarm.DecodeManifest(raw); err == nil {
			return man.Name
		}
	}
	return ""
}

// blocksHere tells which blocks of a model are on this disk, as spans; "" for what is no model
// of ours, or of several files.
func blocksHere(ctx context.Context, h *hub.Hub, m hub.Model) string {
	snap, err := h.Open(ctx, hub.Name{Repo: m.Repo, Revision: m.Commit})
	if err != nil {
		return ""
	}
	defer snap.Close()
	src := weights.Source{Path: snap.Path}
	if snap.Partly() {
		src.Filler = snap
	}
	ck, err := families.OpenSource(ctx, src)
	if err != nil {
		return ""
	}
	defer ck.Close()
	var texts []string
	for _, s := range swarm.SpansWhere(ck.Config.Layers, ck.Here) {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, ",")
}

// fetchModel is `whorl models get`.
func fetchModel(ctx context.Context, f *wiring.HubOptions, w *world, model, span string) error {
	src, fetched, err := f.Source(ctx, model, false)
	if err != nil {
		return err
	}
	if fetched == nil {
		return wiring.Usagef("MODEL %s is a path of this machine: there is nothing to fetch", model)
	}
	defer fetched.Close()
	if span == "" {
		if err := fetched.All(ctx); err != nil {
			return wiring.HubError(ctx, "MODEL "+model, err)
		}
		fmt.Fprintln(w.out, fetched.Snapshot.Path)
		return nil
	}
	s, err := swarm.ParseSpan(span)
	if err != nil {
		return wiring.Usagef("--blocks: %w", err)
	}
	ck, err := families.OpenSource(ctx, src)
	if err != nil {
		return wiring.ModelError(err)
	}
	defer ck.Close()
	if s.End > ck.Config.Layers {
		return wiring.Usagef("--blocks %s: %s has blocks 0:%d", span, fetched.Snapshot.Name.Repo, ck.Config.Layers)
	}
	defer fetched.Report(ctx)()
	if err := ck.Fetch(ctx, s.Start, s.End, false); err != nil {
		return wiring.HubError(ctx, "MODEL "+model, err)
	}
	fmt.Fprintln(w.out, fetched.Snapshot.Path)
	return nil
}

// removeModel is `whorl models rm`.
func removeModel(ctx context.Context, w *world, model string, foreign bool) error {
	n, err := hub.Parse(model)
	if err != nil {
		return wiring.Usage(err)
	}
	if n.File != "" {
		return wiring.Usagef("%s: files go with their revision: name %s", model, n.Repo)
	}
	cfg, err := new(wiring.HubOptions).Config(ctx)
	if err != nil {
		return err
	}
	bytes, stayed := hub.New(cfg).Remove(n, foreign)
	switch {
	case bytes == 0 && stayed == 0:
		return wiring.Usagef("%s is not in the cache at %s: `whorl models` lists what is", model, cfg.Cache)
	case stayed > 0:
		fmt.Fprintf(w.out, "%s went; %d files stay: a process has them open, or another client fetched them (--foreign)\n", bytesText(bytes), stayed)
	default:
		fmt.Fprintf(w.out, "%s went\n", bytesText(bytes))
	}
	return nil
}
