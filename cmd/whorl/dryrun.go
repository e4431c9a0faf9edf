package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"whorl/internal/wiring"
	"whorl/model"
	"whorl/server"
	"whorl/server/blocks"
	"whorl/tensor"
)

// modelPlan is how a model would lie in the memory of servers; sizes are in bytes.
type modelPlan struct {
	Model      string `json:"model"`
	Family     string `json:"family"`
	Params     int64  `json:"parameters"`
	DType      string `json:"dtype"`
	Quant      string `json:"quant"`
	KVDType    string `json:"kv_dtype"`
	Blocks     int    `json:"blocks"`
	BlockBytes int64  `json:"block_bytes"`       // of the largest block
	TokenBytes int64  `json:"cache_token_bytes"` // of keys and values of a position in a block
	HeadBytes  int64  `json:"head_bytes"`        // of whoever generates: embeddings, norms, LM head
	Memory     int64  `json:"memory_bytes"`
	Fit        int    `json:"fit_blocks"` // blocks that fit into Memory, beside their cache
	Cache      int    `json:"cache_tokens"`
	Machines   int    `json:"machines"`                // of Memory, that hold the whole model
	Source     string `json:"memory_source,omitempty"` // where Memory comes from, unless it was given
	Parts      parts  `json:"parts"`

	memory server.MemoryPlan
}

// parts are what Memory is for, in bytes: together they are all of it.
type parts struct {
	Weights  int64 `json:"weights"`
	Adapters int64 `json:"adapters"`
	Head     int64 `json:"head"` // 0 without HTTP
	Cache    int64 `json:"cache"`
	Buffers  int64 `json:"buffers"`
	Network  int64 `json:"network"`
	Queues   int64 `json:"queues"`
	Passes   int64 `json:"passes"`
	Spare    int64 `json:"spare"`
}

// planModel plans without loading anything, for a node with HTTP, which holds the head, or
// without. An error says that not even one block fits.
func planModel(m *model.Outline, o model.LoadOptions, kv tensor.DType, cfg server.Config, http bool) (modelPlan, error) {
	c := m.Config()
	class, err := m.Class(o)
	if err != nil {
		return modelPlan{}, wiring.Usage(err)
	}
	z, err := blocks.Outlined(m, blocks.Options{Load: o, KV: kv, StepRows: cfg.StepRows})
	if err != nil {
		return modelPlan{}, wiring.Usage(err)
	}
	head, err := m.HeadBytes(o)
	if err != nil {
		return modelPlan{}, wiring.Usage(err)
	}
	p := modelPlan{
		Model: m.Name(), Family: c.Family, Params: m.Params(), DType: class.DType, Quant: class.Quant, KVDType: kv.String(),
		Blocks: c.Layers, BlockBytes: z.Block, TokenBytes: z.Token, HeadBytes: head,
	}
	if http {
		cfg.Head = head
	}
	cfg.Manifest.Hidden = c.Hidden // buffers depend on it
	if p.memory, err = cfg.Plan(z, c.Layers); err != nil {
		return p, fmt.Errorf("%s: %w", m.Name(), err)
	}
	p.Memory, p.Fit, p.Cache = p.memory.Total, p.memory.Blocks, p.memory.CacheToken
	p.Source = p.memory.Source
	p.Parts = parts{p.memory.Weights, p.memory.Adapters, p.memory.Head, p.memory.Cache, p.memory.Buffers, p.memory.Network, p.memory.Queues, p.memory.Passes, p.memory.Spare}
	p.Machines = (p.Blocks + p.Fit - 1) / p.Fit
	return p, nil
}

// printPlan is `whorl serve --dry-run`.
func printPlan(ctx context.Context, w *world, f *wiring.Server) error {
	cfg, err := f.Config()
	if err != nil {
		return err
	}
	f.Model.Hub.Cache = f.Node.CacheDir
	if f.Model.Peers { // a plan joins no swarm
		if f.Model.Path = f.Model.Place; f.Model.Path == "" {
			return wiring.Usagef("--dry-run joins no swarm, and %s is at no hub: give the path of its files behind the invitation", f.Model.Name)
		}
	}
	m, err := f.Model.Outline(ctx)
	if err != nil {
		return err
	}
	p, err := planModel(m, model.LoadOptions{DType: f.Model.DType, Quant: f.Model.Quant}, f.Model.KV, cfg, f.HTTP.HTTP != wiring.Off)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(w.out, p)
	}
	return p.print(w.out)
}

func (p modelPlan) print(to io.Writer) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "model\t%s\t%s, %d blocks, %.3g billion parameters\n", p.Model, p.Family, p.Blocks, float64(p.Params)/1e9)
	fmt.Fprintf(t, "class\t%s\tquant %s, %s cache\n", p.DType, p.Quant, p.KVDType)
	fmt.Fprintf(t, "a block\t%s\tand %s of cache for each token\n", bytesText(p.BlockBytes), bytesText(p.TokenBytes))
	fmt.Fprintf(t, "head\t%s\ton nodes that generate: this one unless --http is off\n", bytesText(p.HeadBytes))
	fmt.Fprintf(t, "here\t%s\t%s\n", bytesText(p.Memory), p.memory)
	if p.Machines == 1 {
		fmt.Fprintln(t, "swarm\t1 machine\tof that memory holds the model")
	} else {
		fmt.Fprintf(t, "swarm\t%d machines\tof that memory hold the model\n", p.Machines)
	}
	return t.Flush()
}

// bytesText is a number of bytes in the unit that people would choose.
func bytesText(n int64) string {
	switch {
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
}
