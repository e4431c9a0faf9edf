package swarmtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/evidence"
	"whorl/swarm/proof"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
)

// watch is a node that has users' sessions audited and tells others of liars.
type watch struct {
	*audited
	id     swarm.PeerID
	node   *Node
	docket *trust.Docket
	tells  *evidence.Service
}

// watches are so many nodes in a ring, each connected to those 1 and 3 places away: with 11 of them every node
// is at most two exchanges away from every other.
func watches(t *testing.T, w *World, seed uint64, n int, change func(*client.Config)) []*watch {
	r := rand.New(rand.NewPCG(seed, 33))
	var mu sync.Mutex
	draw := func() float64 { mu.Lock(); defer mu.Unlock(); return r.Float64() }
	name := func(i int) swarm.PeerID { return swarm.PeerID(fmt.Sprint("watch", (i+n)%n)) }
	var out []*watch
	for i := range n {
		x := &watch{audited: &audited{w: w, liars: map[swarm.PeerID]int{}, seen: &observer{Book: trust.NewBook(trust.DefaultParams())}}, id: name(i)}
		x.docket = trust.NewDocket(x.id, Verify, trust.DefaultDocketParams())
		x.e = w.EngineAt(x.id, FakeHead{}, FakeVocab, func(c *client.Config) {
			c.Trust, c.Timeouts, c.Draw, c.Auditor = x.seen, client.DefaultTimeouts(), draw, x.id
			c.Accuse = func(a proof.Accusation) { x.tells.Accuse(a) }
			c.RTT = func(swarm.PeerID) (time.Duration, bool) {
				return time.Duration(1 + draw()*float64(50*time.Millisecond)), true
			}
			if change != nil {
				change(c)
			}
		})
		x.node = w.Net.nodes[x.id]
		peers := []swarm.PeerID{name(i - 3), name(i - 1), name(i + 1), name(i + 3)}
		var err error
		x.tells, err = evidence.New(evidence.Config{
			Self: x.id, Swarm: "main", Dial: x.node.Dial, Peers: func() []swarm.PeerID { return slices.Clone(peers) }, Prefix: func(swarm.PeerID) string { return "" },
			Docket: x.docket, Check: x.e.Check, Every: time.Hour, Draw: draw, Log: w.Log.With("node", x.id),
		})
		if err != nil {
			t.Fatal(err)
		}
		x.node.Handle(wire.ProtoEvidence, x.tells.Serve)
		ctx, end := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { x.e.Audit(ctx) })
		all.Go(func() { x.tells.Run(ctx) })
		t.Cleanup(func() { end(); all.Wait() })
		out = append(out, x)
	}
	return out
}

// avoids tells whether a node holds a server to be a proven liar.
func (x *watch) avoids(p swarm.PeerID) bool {
	a, ok := x.seen.Judge(p, "", time.Now())
	return ok && a.Kind == trust.Proven
}

// innocents are the honest servers that a node avoids.
func innocents(all []*watch) (out []string) {
	for _, x := range all {
		_, more := x.found()
		for _, m := range more {
			out = append(out, fmt.Sprintf("%s avoids %s", x.id, m))
		}
	}
	return out
}

// silent are liars that leave no evidence.
var silent = map[string]Lie{
	"signs nothing": func(proto string, ty wire.Type, frame []byte) []byte {
		var v wire.Status
		if ty != wire.TypeAccept || wire.Decode(ty, frame[frameHead:], &v) != nil {
			return frame
		}
		v.Receipts = false
		return wire.AppendJSON(nil, ty, v)
	},
	"signs what is right": func(proto string, ty wire.Type, frame []byte) []byte {
		if ty == wire.TypeRows || ty == wire.TypeJournal {
			frame[len(frame)-3] ^= 5
		}
		return frame
	},
}

// A liar that one node's audits find is avoided by all nodes after two exchanges, of which the
// second is from nodes that have found it out themselves; also if it signs nothing, or what is
// right. No honest server is.
func TestLiarsAreKnownToAll(t *testing.T) {
	kinds := append(slices.Collect(maps.Keys(lies)), slices.Collect(maps.Keys(silent))...)
	slices.Sort(kinds)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			rare := strings.Contains(kind, "thousandth")
			known, all, longest := 0, 0, time.Duration(0)
			for seed := range uint64(liarRuns(1)) {
				synctest.Test(t, func(t *testing.T) {
					w, _, _ := scene(t, seed, quick, nil, "first0 0:3", "first1 0:3", "first2 0:3", "last0 3:6", "last1 3:6", "last2 3:6")
					own := rand.New(rand.NewPCG(seed, 77))
					loader := quick
					if lie := lies[kind]; lie != nil {
						loader.Lie = lie(own, 0)
					} else if kind == "signs nothing" {
						loader.Lie = flips(own, 1)
					}
					at := []string{"liar 0:3", "liar 3:6"}[seed%2]
					begin(t, w, at, loader)
					if lie := silent[kind]; lie != nil {
						w.Server("liar").Lies(lie)
					}
					nodes := watches(t, w, seed, 11, nil)
					tokens := 4
					if rare {
						tokens = 80
					}
					await := func(long time.Duration, is func() bool) bool {
						for until := time.Now().Add(long); !is(); <-time.After(20 * time.Millisecond) {
							if time.Now().After(until) {
								return false
							}
						}
						return true
					}
					for i := 0; !await(3*time.Second, func() bool { return nodes[0].avoids("liar") }); i++ {
						if i == 60 && rare {
							return // who lies so rarely may be found by nobody
						}
						if i == 60 {
							t.Fatalf("seed %d: the liar is not found", seed)
						}
						nodes[0].ask(t, tokens, i) // the others have no users
					}
					begun := time.Now()
					missing := func() (n int) {
						for _, x := range nodes {
							if !x.avoids("liar") {
								n++
							}
						}
						return n
					}
					await(time.Minute, func() bool { return missing() == 0 })
					all++
					if n := missing(); n == 0 {
						known++
						longest = max(longest, time.Since(begun))
					} else if !rare {
						t.Errorf("seed %d: %d of %d nodes do not avoid the liar", seed, n, len(nodes))
					}
					for _, x := range nodes { // who believes its own eyes has the means to open others'
						if list, _ := x.docket.Tell(0, time.Now()); x.avoids("liar") && len(list) != 1 {
							t.Errorf("seed %d: %s tells %d accusations", seed, x.id, len(list))
						}
					}
					if bad := innocents(nodes); len(bad) > 0 {
						t.Errorf("seed %d: %v", seed, bad)
					}
				})
			}
			t.Logf("all nodes avoid the liar in %d of %d runs, within %v", known, all, longest)
			if 3*known < 2*all && all > 9 {
				t.Error("most liars that lie rarely should be known to all")
			}
		})
	}
}

// signed has a server compute rows of a canary as it is, or with others in places, and returns what it gave and signed.
func signed(t *testing.T, x *Node, c *proof.Canary, n int, change func(row int, values []float32)) (gave []content.Hash, r *proof.Receipt) {
	t.Helper()
	st, err := x.Dial(t.Context(), c.Server, wire.ProtoSession)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Reset()
	open := wire.Open{
		Version: wire.Version, Features: wire.Features, UID: FakeManifest.UID(), Span: c.Span, MaxLength: proof.MaxCanaryRows, Activations: "auto",
		Receipts: c.Nonce(), Route: wire.Route{Epoch: 1, Journal: -1},
	}
	copy(open.Session[:], c.Salt[:])
	open.Mode = open.SessionMode().Hash()
	rows := c.Fill(nil, 0, n, fakeHidden)
	for i := range n {
		if change != nil {
			change(i, rows[i*fakeHidden:(i+1)*fakeHidden])
		}
	}
	h := wire.RowsHeader{Session: open.Session, Epoch: 1, Step: 1, Count: uint32(n), Codec: codec.F32}
	frame := wire.AppendFrame(wire.AppendJSON(nil, wire.TypeOpen, open), wire.TypeCommit)
	data := wire.BeginRows(nil, wire.TypeRows, &h, codec.Size(codec.F32, len(rows)))
	frame = append(frame, codec.Append(data, codec.F32, rows)...)
	if _, err := st.Write(frame); err != nil {
		t.Fatal(err)
	}
	in := wire.NewReader(st)
	in.AllowRows(4 * fakeHidden)
	for {
		ty, p, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch ty {
		case wire.TypeRows:
			_, data, err := wire.ParseRows(p)
			if err != nil {
				t.Fatal(err)
			}
			out, err := codec.Decode(nil, codec.F32, data, len(data)/4)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(out); i += fakeHidden {
				gave = append(gave, proof.HashRow(out[i:i+fakeHidden]))
			}
			if len(gave) == n {
				if _, err := st.Write(wire.AppendFrame(nil, wire.TypeReceipt)); err != nil {
					t.Fatal(err)
				}
			}
		case wire.TypeReceipt:
			r, err := wire.ParseReceipt(p)
			if err != nil {
				t.Fatal(err)
			}
			return gave, &r.Receipt
		}
	}
}

// slanders are false accusations of an honest server, by what it really signed.
func slanders(t *testing.T, x *Node, by, of swarm.PeerID, span swarm.Span, r *rand.Rand) map[string]proof.Accusation {
	manifest, _ := FakeManifest.UID().Hash()
	made := func() *proof.Canary {
		c := &proof.Canary{Manifest: manifest, Span: span, Auditor: by, Server: of, Made: time.Now().UnixMilli()}
		for i := range c.Salt {
			c.Salt[i] = byte(r.Uint32())
		}
		return c
	}
	c := made()
	const rows, row = 12, 5
	gave, honest := signed(t, x, c, rows, nil)
	true1, err := c.Accuse(gave, row, honest, fakeHidden, Verify)
	if err != nil {
		t.Fatal(err)
	}
	other := true1
	other.Out = content.Sum([]byte("not what it gave"))
	unsigned := true1
	unsigned.Sig = slices.Repeat([]byte{7}, 32)
	fed := made()
	gave, receipt := signed(t, x, fed, rows, func(row int, v []float32) {
		if row == 2 {
			v[1]++
		}
	})
	if err := receipt.Check(of, &proof.Receipt{Mode: proof.CanaryMode().Hash(), Manifest: manifest, Span: span, Nonce: fed.Nonce()}, Verify); err != nil {
		t.Fatal(err)
	}
	another := fed.Word(row, gave[row]) // it was fed another row 2 than the canary has
	another.Rows, another.Root, another.Sig, another.Rest = receipt.Rows, receipt.Root, receipt.Sig, true1.Rest
	return map[string]proof.Accusation{
		"what is right": true1, "what it did not give": other, "what it did not sign": unsigned, "what it made of other rows": another,
		"a word": made().Word(row, gave[row]),
	}
}

// False accusations never get an honest server avoided, however they are made, by whom and of whom;
// nodes hear no more of who told them, hand none of them on, and hear what is true all the same.
func TestFalseAccusations(t *testing.T) {
	for seed := range uint64(liarRuns(1)) {
		synctest.Test(t, func(t *testing.T) {
			servers := map[swarm.PeerID]swarm.Span{}
			var names []string
			for i := range 3 {
				names = append(names, fmt.Sprintf("first%d 0:3", i), fmt.Sprintf("last%d 3:6", i))
				servers[swarm.PeerID(fmt.Sprint("first", i))], servers[swarm.PeerID(fmt.Sprint("last", i))] = swarm.Span{End: 3}, swarm.Span{Start: 3, End: 6}
			}
			w, _, _ := scene(t, seed, quick, nil, names...)
			begin(t, w, "liar 0:3", FakeLoader{Delay: quick.Delay, Lie: flips(rand.New(rand.NewPCG(seed, 1)), 1)}) // and lies as a witness
			nodes := watches(t, w, seed, 11, nil)
			r := rand.New(rand.NewPCG(seed, 2))
			at := 0
			for of, span := range servers {
				for range 2 {
					at++
					by := swarm.PeerID(fmt.Sprint("slanderer", at))
					x := w.Net.Node(by)
					t.Cleanup(x.Close)
					list := slices.Collect(maps.Values(slanders(t, x, by, of, span, r)))
					for _, node := range nodes {
						told := slices.Clone(list)
						r.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
						if of := told[r.IntN(len(told))]; r.IntN(2) == 0 { // one alone
							told = []proof.Accusation{of}
						}
						tell(t, x, node.id, told)
					}
				}
			}
			<-time.After(2 * time.Minute)
			for _, x := range nodes {
				if list, _ := x.docket.Tell(0, time.Now()); len(list) > 1 {
					t.Errorf("seed %d: %s hands on %d accusations", seed, x.id, len(list))
				}
				if waiting, _ := x.docket.Counts(); waiting > 0 {
					t.Errorf("seed %d: %d accusations wait at %s", seed, waiting, x.id)
				}
			}
			for i := 0; i < 40 && !nodes[0].avoids("liar"); i++ {
				nodes[0].session(t, 4, i)
			}
			<-time.After(time.Minute)
			for _, x := range nodes {
				if !x.avoids("liar") {
					t.Errorf("seed %d: %s does not avoid the liar", seed, x.id)
				}
			}
			if bad := innocents(nodes); len(bad) > 0 {
				t.Errorf("seed %d: %v", seed, bad)
			}
		})
	}
}

// tell tells a node accusations as its neighbours do.
func tell(t *testing.T, x *Node, to swarm.PeerID, list []proof.Accusation) {
	t.Helper()
	st, err := x.Dial(t.Context(), to, wire.ProtoEvidence)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Reset()
	a := wire.Accusations{Log: 1, At: uint64(time.Now().UnixNano())}
	for _, o := range list {
		a.All = append(a.All, o.Append(nil))
	}
	if _, err := st.Write(a.AppendFrame(wire.AppendJSON(nil, wire.TypeHear, wire.Hear{Version: wire.Version, Swarm: "main"}))); err != nil {
		t.Fatal(err)
	}
	if ty, _, err := wire.NewReader(st).Next(); err != nil || ty != wire.TypeTold {
		t.Errorf("type %d, %v", ty, err)
	}
}
