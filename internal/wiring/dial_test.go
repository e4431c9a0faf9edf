package wiring

import (
	"context"
	"io"
	"testing"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// Streams to self go through memory, others through the network.
func TestSelfDialer(t *testing.T) {
	d := selfDialer{self: "me", others: nobody{}}
	if _, err := d.Dial(t.Context(), "you", wire.ProtoSession); swarm.CodeOf(err) != swarm.CodePeerLost {
		t.Errorf("dialling others without a network: %v", err)
	}
	if _, err := d.Dial(t.Context(), "me", wire.ProtoSession); swarm.CodeOf(err) != swarm.CodePeerLost {
		t.Errorf("dialling what nobody answers: %v", err)
	}
	d.handle(wire.ProtoSession, func(_ context.Context, from swarm.PeerID, s wire.Stream) {
		io.WriteString(s, "hello "+string(from))
		s.Close()
	})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := d.Dial(ctx, "me", wire.ProtoSession)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // of the dial: the stream goes on
	if b, err := io.ReadAll(s); err != nil || string(b) != "hello me" {
		t.Errorf("read %q, %v", b, err)
	}
	d.wait()
}
