package swarmtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/server"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// apart lets a server dial all but some others.
type apart struct {
	server.Dialer
	from swarm.PeerID
	net  *partition
}

// partition is which servers cannot reach which, and how often they tried.
type partition struct {
	deaf  func(from, to swarm.PeerID) bool
	tries int
}

func (a apart) Dial(ctx context.Context, to swarm.PeerID, proto string) (wire.Stream, error) {
	if a.net.deaf(a.from, to) {
		a.net.tries++
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		return nil, swarm.Errorf(swarm.CodePeerLost, swarm.Elsewhere, "no way from %s to %s", a.from, to)
	}
	return a.Dialer.Dial(ctx, to, proto)
}

// Servers that cannot reach each other serve a session all the same: its rows go through the
// client, its ids are those of one process, prompts of many chunks and beams included; the
// next session knows, and where there is another chain it takes that.
func TestDetours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := &partition{deaf: func(from, to swarm.PeerID) bool { return strings.HasPrefix(string(from), "0:2") && to == "2:4/0" }}
		w := NewWorld(t, FakeManifest)
		w.Dialer = func(id swarm.PeerID, d server.Dialer) server.Dialer { return apart{d, id, cut} }
		for _, text := range []string{"0:2", "2:4", "4:6"} {
			span, err := swarm.ParseSpan(text)
			if err != nil {
				t.Fatal(err)
			}
			w.Start(swarm.PeerID(text+"/0"), span, FakeLoader{Delay: 300 * time.Microsecond}, nil)
		}
		e := w.Engine(FakeHead{}, FakeVocab, nil)
		want := FakeGreedy(prompt(100, 3), 40)
		for i, o := range []client.SessionOptions{{MaxLength: 150}, {MaxLength: 150, PrefillChunk: 7}, {MaxLength: 150, PrefillChunk: 1}} {
			before := cut.tries
			if got := generate(t, e, o, prompt(100, 3), 40, nil); !slices.Equal(got, want) {
				t.Errorf("session %d: %v, want %v", i, got, want)
			}
			if tried := cut.tries - before; (i == 0) != (tried > 0) {
				t.Errorf("session %d: the way was tried %d times", i, tried)
			}
		}
		span, _ := swarm.ParseSpan("2:4")
		w.Start("2:4/1", span, FakeLoader{Delay: 300 * time.Microsecond}, nil)
		var route string
		generate(t, e, client.SessionOptions{MaxLength: 50}, prompt(10, 3), 5, func(s *client.Session, _ int) { route = fmt.Sprint(s.Route()) })
		if !strings.Contains(route, "2:4/1") {
			t.Errorf("with another chain the route is %s", route)
		}
	})
}
