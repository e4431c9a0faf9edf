package main

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/content"
	"whorl/internal/meter"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/p2p"
	"whorl/swarm/proof"
	"whorl/swarm/wire"
)

// BenchmarkReceiptsOfPrompts measures what receipts cost a prompt of 1,024 rows through 8 blocks of a real
// model: ratio is the median, over pairs of prompts in turns, of the time with one, until it is there, by
// that without, and cpu-ratio the same of processor time, of both ends.
func BenchmarkReceiptsOfPrompts(b *testing.B) {
	at := benchNode(b, "serve", realModel(b), "--new-swarm", "--http", "off", "--block-indices", "0:8", "--throughput", "100", "--attn-cache-tokens", "4096")
	ctx := b.Context()
	var st swarm.NodeStatus
	if err := json.Unmarshal(at.ask("GET", at.Admin+"/api/v1/node", ""), &st); err != nil {
		b.Fatal(err)
	}
	user, err := p2p.New(p2p.Config{HostMaddrs: []string{"/ip4/127.0.0.1/tcp/0"}, Agent: "user"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { user.Close() })
	server := swarm.PeerID(at.PeerID)
	addr, _, _ := strings.Cut(at.Addrs[0], "/p2p/")
	user.AddAddrs(server, []string{addr})

	const rows, chunk = 1024, 256
	span, hidden := swarm.Span{Start: 0, End: 8}, st.Manifest.Hidden
	made := proof.Canary{Span: span}
	values := made.Fill(nil, 0, rows, hidden)
	type took struct{ wall, cpu time.Duration }
	one := func(nonce content.Hash) time.Duration {
		s, err := user.Dial(ctx, server, wire.ProtoSession)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Reset()
		o := wire.Open{Version: wire.Version, Features: wire.Features, UID: st.Manifest.UID(), Span: span, MaxLength: rows, Activations: "auto", Receipts: nonce, Route: wire.Route{Epoch: 1, Journal: -1}}
		rand.Read(o.Session[:])
		o.Mode = o.SessionMode().Hash()
		r := wire.NewReader(s)
		r.AllowRows(4 * hidden)
		next := func() (wire.Type, []byte) {
			t, p, err := r.Next()
			if err != nil || t == wire.TypeFail {
				b.Fatalf("type %d: %s %v", t, p, err)
			}
			return t, p
		}
		s.Write(wire.AppendFrame(wire.AppendJSON(nil, wire.TypeOpen, o), wire.TypeCommit))
		next()
		begin := time.Now()
		for from := 0; from < rows; from += chunk {
			h := wire.RowsHeader{Session: o.Session, Epoch: 1, Step: uint64(from/chunk + 1), Start: uint32(from), Count: chunk, Want: rows - 1, Codec: codec.F32}
			part := values[from*hidden : (from+chunk)*hidden]
			s.Write(codec.Append(wire.BeginRows(nil, wire.TypeRows, &h, codec.Size(codec.F32, len(part))), codec.F32, part))
		}
		last, receipt := false, nonce.IsZero()
		for !last || !receipt {
			switch t, p := next(); t {
			case wire.TypeRows:
				h, _, err := wire.ParseRows(p)
				if err != nil {
					b.Fatal(err)
				}
				// Asked for earlier, a receipt of fewer rows may be the answer, and none of the same rows follows.
				if last = h.End() == rows; last && !receipt {
					s.Write(wire.AppendFrame(nil, wire.TypeReceipt))
				}
			case wire.TypeReceipt:
				got, err := wire.ParseReceipt(p)
				if err != nil {
					b.Fatal(err)
				}
				receipt = got.Rows == rows
			}
		}
		return time.Since(begin)
	}
	prompt := func(nonce content.Hash) (t took) {
		t.cpu = meter.Worked(b, func() { t.wall = one(nonce) })
		return t
	}
	prompt(content.Hash{})
	var ratios, cpu []float64
	var plain time.Duration
	for b.Loop() {
		for i := range 12 {
			first, second := content.Hash{}, content.Hash{1}
			if i%2 == 1 {
				first, second = second, first
			}
			x, y := prompt(first), prompt(second)
			if i%2 == 1 {
				x, y = y, x
			}
			plain += x.wall
			ratios, cpu = append(ratios, float64(y.wall)/float64(x.wall)), append(cpu, float64(y.cpu)/float64(x.cpu))
		}
	}
	slices.Sort(ratios)
	slices.Sort(cpu)
	b.ReportMetric(cpu[len(cpu)/2], "cpu-ratio")
	b.ReportMetric(cpu[3*len(cpu)/4], "cpu-ratio-75%")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(ratios[len(ratios)/4], "ratio-25%")
	b.ReportMetric(ratios[3*len(ratios)/4], "ratio-75%")
	b.ReportMetric(float64(rows*len(ratios))/plain.Seconds(), "rows/s")
}
