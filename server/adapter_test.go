package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/wire"
)

var adapters = []blocks.Adapter{{Name: "poems", Digest: "d1"}, {Name: "prose", Digest: "d2"}}

func withAdapters(_ *Config, n *node) { n.adapters = adapters }

// Sessions of two adapters and of none are computed together, each with its own.
func TestStepsMixAdapters(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", swarm.Span{Start: 0, End: modelSize}, withAdapters)
		view, _ := w.View(t.Context(), manifest.UID())
		if got := view.Servers[0].Adapters; !slices.Equal(got, []swarm.Adapter{{Name: "poems", Digest: "d1"}, {Name: "prose", Digest: "d2"}}) {
			t.Errorf("announced %v", got)
		}
		in := input(1, 3)
		var peers []*peer
		for i, a := range []*swarm.Adapter{{Name: "prose", Digest: "d2"}, nil, {Name: "poems", Digest: "d1"}} {
			peers = append(peers, w.opened(n, "client", swarm.Span{Start: 0, End: modelSize}, func(o *wire.Open) {
				o.Session, o.Adapter = wire.SessionID{7, byte(i)}, a
			}))
		}
		peers[1].rows(in, 0, 1, 0)
		peers[1].position(1)
		synctest.Wait()
		if got := n.engine.used; len(got) != 1 || got[0] != nil {
			t.Errorf("a step without adapters was told of %v", got)
		}
		synctest.Wait()
		n.engine.hold, n.engine.began = make(chan struct{}), make(chan int, 10)
		peers[1].rows(in, 1, 2, 1) // holds the compute loop while the others send
		<-n.engine.began
		for i, p := range peers {
			from := 0
			if i == 1 {
				from = 2
			}
			p.rows(in, from, from+1, from)
		}
		synctest.Wait()
		close(n.engine.hold)
		for i, p := range peers {
			p.position([]int{1, 3, 1}[i])
		}
		synctest.Wait()
		last := slices.Clone(n.engine.used[len(n.engine.used)-1])
		if slices.Sort(last); !slices.Equal(last, []int{-1, 0, 1}) {
			t.Errorf("a step of three sessions was told of the adapters %v", last)
		}
		for _, p := range peers {
			p.close()
		}
		n.idle(t)
	})
}

// A refusal says what was asked, what the server holds, and what to do.
func TestUnknownAdapterIsRefused(t *testing.T) {
	many := make([]blocks.Adapter, 20)
	for i := range many {
		many[i] = blocks.Adapter{Name: fmt.Sprint("n", i), Digest: "d"}
	}
	for _, c := range []struct {
		held    []blocks.Adapter
		adapter swarm.Adapter
		code    swarm.Code
		verdict swarm.Verdict
		want    string
	}{
		{adapters, swarm.Adapter{Name: "songs", Digest: "d1"}, swarm.CodeWrongModel, swarm.Elsewhere,
			`a session asks for the adapter "songs" with digest "d1": server a holds "poems", "prose": ask for one of these, or start a server with --adapters`},
		{adapters, swarm.Adapter{Name: "poems", Digest: "d2"}, swarm.CodeWrongModel, swarm.Elsewhere,
			`a session asks for the adapter "poems" with digest "d2", and server a holds another of this name, with digest "d1": ask for that one, or start a server with the same files`},
		{nil, swarm.Adapter{Name: "songs", Digest: strings.Repeat("0123456789", 6)}, swarm.CodeWrongModel, swarm.Elsewhere,
			`a session asks for the adapter "songs" with digest "012345678901": server a holds none: ask a server that was started with --adapters`},
		{many, swarm.Adapter{Name: "songs", Digest: "d"}, swarm.CodeWrongModel, swarm.Elsewhere, `"n6", "n7", 12 more: ask`},
		{adapters, swarm.Adapter{Name: "poems"}, swarm.CodeBadRequest, swarm.Caller, `adapter digest of 0 bytes, want 1 to 128): server a holds "poems", "prose": ask`},
		{nil, swarm.Adapter{Name: "a\nb", Digest: "d"}, swarm.CodeBadRequest, swarm.Caller, `without control characters): server a holds none: ask`},
	} {
		bubble(t, func(t *testing.T, w *world) {
			n := w.serve("a", swarm.Span{Start: 0, End: modelSize}, func(_ *Config, n *node) { n.adapters = c.held })
			p := w.dial(n, "client")
			o := openMsg(swarm.Span{Start: 0, End: modelSize})
			o.Adapter = &c.adapter
			p.send(wire.TypeOpen, o)
			if f := p.refusal(c.code, c.verdict); !strings.Contains(f.Message, c.want) {
				t.Errorf("%v: %s\nwant %s", c.adapter, f.Message, c.want)
			}
			n.idle(t)
		})
	}
}
