package hostile

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"whorl/client"
	"whorl/content"
	"whorl/internal/swarmtest"
	"whorl/swarm"
	"whorl/swarm/evidence"
	"whorl/swarm/p2p"
	"whorl/swarm/proof"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
)

// accusations are false ones of a kind: words, with what a stranger signed for a server, and of itself.
func accusations(t *testing.T, x *Stranger, servers []*Node, n, kind int) (all [][]byte) {
	t.Helper()
	manifest, _ := swarmtest.FakeManifest.UID().Hash()
	by := x.Host.ID()
	for i := range n {
		server := servers[i%len(servers)].Host.ID()
		c := proof.Canary{Manifest: manifest, Span: swarm.Span{End: 3}, Auditor: by, Server: server, Made: time.Now().UnixMilli(), Salt: content.Sum([]byte{byte(i)})}
		switch kind % 3 {
		case 0: // a word
			word := c.Word(0, content.Hash{})
			all = append(all, word.Append(nil))
		case 1: // signed by who tells it
			a := proof.Accusation{Canary: c, Rows: 1}
			a.Sig, _ = x.Host.Sign(proof.ReceiptDomain, []byte("something"))
			all = append(all, a.Append(nil))
		case 2: // of a peer that serves nothing, which signs whatever it likes
			c.Auditor, c.Server = server, by
			r := proof.Receipt{Mode: proof.CanaryMode().Hash(), Manifest: manifest, Span: c.Span, Rows: 1, Nonce: c.Nonce()}
			a := proof.Accusation{Canary: c, Rows: 1}
			var err error
			if a.Sig, err = x.Host.Sign(proof.ReceiptDomain, r.Payload()); err != nil {
				t.Fatal(err)
			}
			all = append(all, a.Append(nil))
		}
	}
	return all
}

// Strangers flood a gateway with accusations of every kind, and with frames that are none: users
// keep their text, what is kept and looked into is bounded, and nobody is avoided.
func TestEvidenceFlood(t *testing.T) {
	book := trust.NewBook(trust.DefaultParams())
	w := New(t, Options{Client: func(c *client.Config) { c.Trust = book }})
	g := w.Gateway.Host
	docket := trust.NewDocket(g.ID(), p2p.Verify, trust.DefaultDocketParams())
	var checks atomic.Int64
	tells, err := evidence.New(evidence.Config{
		Self: g.ID(), Swarm: "main", Dial: g.Dial, Peers: func() []swarm.PeerID { return g.Speaks(wire.ProtoEvidence) },
		Prefix: func(swarm.PeerID) string { return "" }, // as loopback
		Docket: docket, Check: func(ctx context.Context, a *proof.Accusation, teller swarm.PeerID) trust.Finding {
			checks.Add(1)
			return w.Engine.Check(ctx, a, teller)
		}, Every: time.Second, Registerer: w.Gateway.Metrics,
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Handle(wire.ProtoEvidence, tells.Serve)
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { tells.Run(ctx) })
	defer func() { end(); running.Wait() }()

	strangers := make([]*Stranger, 24)
	for i := range strangers {
		strangers[i] = w.Stranger("")
	}
	hear := wire.AppendJSON(nil, wire.TypeHear, wire.Hear{Version: wire.Version, Swarm: "main"})
	var honest int
	var sent atomic.Int64
	w.Within(24<<20, func() {
		honest = w.Honest(func() {
			var all sync.WaitGroup
			for i, x := range strangers {
				list := accusations(t, x, w.Servers, wire.MaxAccusations, i)
				flood := (&wire.Accusations{Log: 1, At: 1, All: list}).AppendFrame(append([]byte(nil), hear...))
				if i%4 == 3 { // and broken ones
					flood = append(append([]byte(nil), hear...), wire.AppendFrame(nil, wire.TypeTold, make([]byte, 60<<10))...)
				}
				all.Go(func() {
					for begun := time.Now(); time.Since(begun) < 2*time.Second || checks.Load() == 0 && time.Since(begun) < patience; {
						s, err := x.Open(w.Gateway, wire.ProtoEvidence)
						if err != nil {
							continue
						}
						s.SetDeadline(time.Now().Add(time.Second))
						if _, err := s.Write(flood); err == nil {
							sent.Add(1)
							wire.NewReader(s).Next()
						}
						s.Reset()
					}
				})
			}
			all.Wait()
		})
	})
	p := trust.DefaultDocketParams()
	if waiting, told := docket.Counts(); waiting > p.Waiting || told > 0 {
		t.Errorf("%d accusations wait and %d are told", waiting, told)
	}
	// A stranger has four looked into until one is false, and each of those at most some times.
	if n := checks.Load(); n == 0 || n > int64(len(strangers)*p.OfPeer) {
		t.Errorf("%d accusations were looked into", n)
	}
	for _, s := range book.Standings(time.Now()) {
		if s.Avoid != nil && s.Avoid.Kind != trust.Late && s.Avoid.Kind != trust.Lost { // as a machine with much to do may be
			t.Errorf("%s is avoided: %s", s.Peer, s.Avoid.Reason)
		}
	}
	t.Logf("%d floods, %d looked into, %d honest answers meanwhile", sent.Load(), checks.Load(), honest)
}
