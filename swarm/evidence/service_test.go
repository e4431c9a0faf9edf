package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/content"
	"whorl/internal/swarmtest"
	"whorl/swarm"
	"whorl/swarm/proof"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
)

// told is an accusation with a receipt, of row 0 of one.
func told(by, of swarm.PeerID) proof.Accusation {
	c := proof.Canary{Manifest: content.Hash{1}, Span: swarm.Span{End: 3}, Auditor: by, Server: of, Made: time.Now().UnixMilli(), Salt: content.Hash{1}}
	leaf := proof.Leaf{Mode: proof.CanaryMode().Hash(), Manifest: c.Manifest, Span: c.Span, Parent: proof.NoParent, In: proof.HashRow(c.Fill(nil, 0, 1, 4)), Out: content.Hash{7}}
	var log proof.Log
	log.Append(leaf.Hash())
	r := proof.Receipt{Mode: leaf.Mode, Manifest: c.Manifest, Span: c.Span, Rows: 1, Nonce: c.Nonce(), Root: log.Root()}
	r.Sig, _ = swarmtest.Signer(of).Sign(proof.ReceiptDomain, r.Payload())
	a, err := c.Accuse([]content.Hash{leaf.Out}, 0, &r, 4, swarmtest.Verify)
	if err != nil {
		panic(err)
	}
	return a
}

// node is one that believes what find says.
type node struct {
	*Service
	*swarmtest.Node
	docket *trust.Docket
}

func start(t *testing.T, net *swarmtest.Net, id swarm.PeerID, find trust.Finding, change func(*Config), peers ...swarm.PeerID) *node {
	t.Helper()
	n := &node{Node: net.Node(id), docket: trust.NewDocket(id, swarmtest.Verify, trust.DefaultDocketParams())}
	cfg := Config{
		Self: id, Swarm: "main", Dial: n.Dial, Peers: func() []swarm.PeerID { return append([]swarm.PeerID{}, peers...) }, Prefix: func(swarm.PeerID) string { return "" },
		Docket: n.docket, Check: func(context.Context, *proof.Accusation, swarm.PeerID) trust.Finding { return find }, Every: time.Minute,
		Draw: func() float64 { return 0.5 },
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if n.Service, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	n.Handle(wire.ProtoEvidence, n.Serve)
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { n.Run(ctx) })
	t.Cleanup(func() { end(); n.Close(); all.Wait() })
	return n
}

func (n *node) tells() string {
	list, _ := n.docket.Tell(0, time.Now())
	var out []string
	for _, raw := range list {
		a, err := proof.ParseAccusation(raw)
		if err != nil {
			return err.Error()
		}
		out = append(out, string(a.Server))
	}
	return strings.Join(out, " ")
}

// News go at once from node to node, as far as each finds them so itself; who comes later asks, and
// nothing is told twice.
func TestExchanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := swarmtest.NewNet()
		a := start(t, net, "a", trust.Confirmed, nil, "b", "doubter")
		b := start(t, net, "b", trust.Confirmed, nil, "a", "c")
		c := start(t, net, "c", trust.Confirmed, nil, "b")
		doubter := start(t, net, "doubter", trust.Unchecked, nil, "a", "behind")
		behind := start(t, net, "behind", trust.Confirmed, nil, "doubter")
		synctest.Wait()
		<-time.After(5 * time.Second)
		a.Accuse(told("a", "liar"))
		synctest.Wait()
		for n, want := range map[*node]string{a: "liar", b: "liar", c: "liar", doubter: "", behind: ""} {
			if got := n.tells(); got != want {
				t.Errorf("%s tells of %q, want %q", n.cfg.Self, got, want)
			}
		}
		late := start(t, net, "late", trust.Confirmed, nil, "c")
		<-time.After(5 * time.Second)
		if got := late.tells(); got != "liar" {
			t.Errorf("a newcomer tells of %q", got)
		}
		net.Sizes()
		net.Counts()
		<-time.After(10 * time.Minute)
		frames := net.Counts()
		for of, bytes := range net.Sizes() {
			if empty := len((&wire.Accusations{}).AppendFrame(nil)); of.Type == wire.TypeTold && bytes != frames[of]*empty {
				t.Errorf("%s told %s %d bytes in %d exchanges without news", of.From, of.To, bytes, frames[of])
			}
		}
	})
}

// What a node had no room for it hears the next time.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := swarmtest.NewNet()
		var mu sync.Mutex
		found := trust.Unchecked
		teller := start(t, net, "teller", trust.Confirmed, nil)
		for i := range 7 { // a peer has four that wait
			teller.Accuse(told("teller", swarm.PeerID(fmt.Sprint("liar", i))))
		}
		hearer := start(t, net, "hearer", 0, func(c *Config) {
			c.Check = func(context.Context, *proof.Accusation, swarm.PeerID) trust.Finding {
				mu.Lock()
				defer mu.Unlock()
				return found
			}
		}, "teller")
		<-time.After(30 * time.Second)
		if waiting, _ := hearer.docket.Counts(); waiting != 4 {
			t.Errorf("%d wait", waiting)
		}
		mu.Lock()
		found = trust.Confirmed
		mu.Unlock()
		<-time.After(10 * time.Minute)
		if got := hearer.tells(); strings.Count(got, "liar") != 7 {
			t.Errorf("told are %q", got)
		}
	})
}

// Nodes of another swarm are refused by name; who is silent, or sends half of something, holds
// nothing for long.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := swarmtest.NewNet()
		n := start(t, net, "n", trust.Confirmed, nil)
		x := net.Node("x")
		t.Cleanup(x.Close)
		send := func(frame []byte) (wire.Type, string) {
			st, err := x.Dial(t.Context(), "n", wire.ProtoEvidence)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Reset()
			if _, err := st.Write(frame); err != nil {
				t.Fatal(err)
			}
			ty, p, err := wire.NewReader(st).Next()
			if err != nil {
				return 0, err.Error()
			}
			return ty, string(p)
		}
		hear := func(name string, version int) []byte {
			return wire.AppendJSON(nil, wire.TypeHear, wire.Hear{Version: version, Swarm: name})
		}
		empty := (&wire.Accusations{}).AppendFrame(nil)
		if ty, _ := send(append(hear("main", wire.Version), empty...)); ty != wire.TypeTold {
			t.Errorf("type %d", ty)
		}
		if ty, text := send(append(hear("other", wire.Version), empty...)); ty != wire.TypeFail || !strings.Contains(text, "is of swarm") {
			t.Errorf("another swarm: type %d, %s", ty, text)
		}
		if ty, text := send(append(hear("main", wire.Version+1), empty...)); ty != wire.TypeFail || !strings.Contains(text, "version") {
			t.Errorf("another version: type %d, %s", ty, text)
		}
		for name, frame := range map[string][]byte{
			"nothing": {1}, "no accusations": hear("main", wire.Version), "half": append(hear("main", wire.Version), empty[:7]...),
			"something else": append(hear("main", wire.Version), wire.AppendFrame(nil, wire.TypeCommit)...),
		} {
			begun := time.Now()
			if ty, _ := send(frame); ty != 0 || time.Since(begun) > timeout {
				t.Errorf("%s: type %d after %v", name, ty, time.Since(begun))
			}
		}
		synctest.Wait()
		if n.turns.Used() != 0 || n.reading.Used() != 0 {
			t.Errorf("%d turns and %d bytes are held", n.turns.Used(), n.reading.Used())
		}
	})
}

// once is a stream that has some bytes to read and takes what is written.
type once struct{ io.Reader }

func (once) Write(p []byte) (int, error)      { return len(p), nil }
func (once) Close() error                     { return nil }
func (once) Reset() error                     { return nil }
func (once) SetDeadline(time.Time) error      { return nil }
func (once) SetReadDeadline(time.Time) error  { return nil }
func (once) SetWriteDeadline(time.Time) error { return nil }

// Whatever a peer sends, it is answered or not, nothing is held afterwards, and no more waits than may.
func FuzzServe(f *testing.F) {
	a, word := told("a", "liar"), told("a", "other")
	word = word.Word(0, content.Hash{})
	hear := wire.AppendJSON(nil, wire.TypeHear, wire.Hear{Version: wire.Version, Swarm: "main", Log: 1, Since: 1})
	f.Add((&wire.Accusations{Log: 3, At: 9, All: [][]byte{a.Append(nil), word.Append(nil)}}).AppendFrame(bytes.Clone(hear)))
	f.Add((&wire.Accusations{Log: 3, At: 9}).AppendFrame(bytes.Clone(hear)))
	f.Add(hear)
	f.Fuzz(func(t *testing.T, b []byte) {
		d := trust.NewDocket("n", swarmtest.Verify, trust.DefaultDocketParams())
		s, err := New(Config{Self: "n", Swarm: "main", Docket: d, Prefix: func(swarm.PeerID) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		s.Serve(t.Context(), "x", once{bytes.NewReader(b)})
		if s.turns.Used() != 0 || s.reading.Used() != 0 {
			t.Fatal("something is held")
		}
		if waiting, _ := d.Counts(); waiting > trust.DefaultDocketParams().OfPeer {
			t.Fatalf("%d of one peer wait", waiting)
		}
	})
}

// A node whose check is under way ends when it is told to.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := swarmtest.NewNet()
		checking := make(chan struct{})
		start(t, net, "n", 0, func(c *Config) {
			c.Check = func(ctx context.Context, _ *proof.Accusation, _ swarm.PeerID) trust.Finding {
				close(checking)
				<-ctx.Done()
				return trust.Unchecked
			}
		})
		a := start(t, net, "a", trust.Confirmed, nil, "n")
		a.Accuse(told("a", "liar"))
		<-checking
		ctx, end := context.WithCancel(t.Context())
		end()
		if err := a.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
