package hostile

import (
	"context"
	"testing"
	"time"

	"whorl/client"
	"whorl/content"
	"whorl/internal/swarmtest"
	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/proof"
	"whorl/swarm/wire"
)

// Nodes sign with their own keys, and another node can tell: it needs the receipt and the
// peer's id, and no connection.
func TestReceiptsOfRealNodes(t *testing.T) {
	w := New(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := w.Engine.Open(ctx, client.SessionOptions{MaxLength: 64, Receipts: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Generate(ctx, client.Request{Prompt: []int32{1, 2, 3, 4, 5}, MaxNewTokens: 20, TopLogprobs: -1}, nil); err != nil {
		t.Fatal(err)
	}
	list, err := s.Receipts(ctx)
	if err != nil || len(list) != len(w.Servers) {
		t.Fatalf("%d receipts, %v", len(list), err)
	}
	for _, r := range list {
		back, err := proof.ParseReceipt(r.Receipt.Receipt.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := p2p.Verify(r.Hop.Peer, proof.ReceiptDomain, back.Payload(), back.Sig); err != nil || back.Rows != 24 {
			t.Errorf("%d rows of %s: %v", back.Rows, r.Hop.Peer.Short(), err)
		}
		if err := p2p.Verify(w.Gateway.Host.ID(), proof.ReceiptDomain, back.Payload(), back.Sig); err == nil {
			t.Error("a server's receipt is taken for the gateway's")
		}
		back.Rows++
		if err := p2p.Verify(r.Hop.Peer, proof.ReceiptDomain, back.Payload(), back.Sig); err == nil {
			t.Error("a changed receipt is taken")
		}
	}
}

// A stranger's sessions ask for receipts as fast as they can: users keep their text, and the
// servers their memory.
func TestReceiptFlood(t *testing.T) {
	w := New(t, Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	srv := w.Servers[0]
	for range 4 {
		x := w.Stranger("")
		x.Host.AddAddrs(srv.Host.ID(), srv.Host.ListenAddrs())
		stream, err := x.Host.Dial(ctx, srv.Host.ID(), wire.ProtoSession)
		if err != nil {
			t.Fatal(err)
		}
		open := wire.Open{Version: wire.Version, UID: swarmtest.FakeManifest.UID(),
			Span: swarm.Span{Start: 0, End: 1}, MaxLength: 8, Activations: "auto", Route: wire.Route{Epoch: 1, Journal: -1}, Receipts: content.Sum(nil)}
		id := x.Host.ID()
		copy(open.Session[:], id[len(id)-len(open.Session):])
		open.Mode = open.SessionMode().Hash()
		if _, err := stream.Write(wire.AppendJSON(nil, wire.TypeOpen, open)); err != nil {
			t.Fatal(err)
		}
		r := wire.NewReader(stream)
		if ty, _, err := r.Next(); err != nil || ty != wire.TypeAccept {
			t.Fatalf("type %d, %v", ty, err)
		}
		flood := wire.AppendFrame(nil, wire.TypeCommit)
		for range 1000 {
			flood = wire.AppendFrame(flood, wire.TypeReceipt)
		}
		go func() { // ends with the stream
			for ctx.Err() == nil {
				if _, err := stream.Write(flood); err != nil {
					return
				}
			}
		}()
		defer stream.Reset()
	}
	n := w.Honest(func() { <-time.After(time.Second) })
	t.Logf("%d honest answers beside floods of requests", n)
}
