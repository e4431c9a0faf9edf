package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/share"
)

// BenchmarkYield measures how much a running answer loses while a node gives its files to
// somebody who takes all it gets, in this process too: ratio is the median, over pairs of
// answers, of the speed with a taker by that without. MiB/s is what the taker got meanwhile.
func BenchmarkYield(b *testing.B) {
	at := benchNode(b, "serve", realModel(b), "--new-swarm", "--http", "127.0.0.1:0", "--threads", "1", "--throughput", "100", "--attn-cache-tokens", "2048")
	ctx := b.Context()
	var st swarm.NodeStatus
	if err := json.Unmarshal(at.ask("GET", at.Admin+"/api/v1/node", ""), &st); err != nil {
		b.Fatal(err)
	}
	taker, err := p2p.New(p2p.Config{HostMaddrs: []string{"/ip4/127.0.0.1/tcp/0"}, Agent: "taker"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { taker.Close() })
	from := swarm.PeerID(at.PeerID)
	addr, _, _ := strings.Cut(at.Addrs[0], "/p2p/")
	taker.AddAddrs(from, []string{addr})
	cfg := share.DefaultClient()
	cfg.Self, cfg.Swarm, cfg.Dial = taker.ID(), "main", taker.Dial
	cfg.Sources = func() []swarm.PeerID { return []swarm.PeerID{from} }
	c, err := share.NewClient(cfg)
	if err != nil {
		b.Fatal(err)
	}
	raw, err := c.Small(ctx, st.Manifest.Files)
	if err != nil {
		b.Fatal(err)
	}
	list, err := share.DecodeBundle(raw)
	if err != nil {
		b.Fatal(err)
	}
	o := list.Files[0].Object
	hashes, err := c.Hashes(ctx, o)
	if err != nil {
		b.Fatal(err)
	}
	want := make([]int, o.Pieces())
	for i := range want {
		want[i] = i
	}
	// Speeds are of the middle of an answer: what follows the first token.
	answer := func() float64 { return at.answer("Hello", 400) }
	answer()
	var ratios, rates, alone []float64
	for b.Loop() {
		a := answer()
		taking, end := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for taking.Err() == nil {
				c.Fetch(taking, o, hashes, want, func(int, []byte) error { return nil })
			}
		}()
		before, began := c.Received(), time.Now()
		<-time.After(100 * time.Millisecond)
		with := answer()
		rates = append(rates, float64(c.Received()-before)/(1<<20)/time.Since(began).Seconds())
		end()
		<-ended
		ratios, alone = append(ratios, with/a), append(alone, a)
	}
	median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(alone), "tok/s-alone")
	b.ReportMetric(median(rates), "MiB/s")
}
