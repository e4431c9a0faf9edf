package hostile

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"whorl/internal/meter"
	"whorl/internal/swarmtest"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// besides is what runs beside honest users, in a process of its own that has one core: a busy
// loop, attackers of the targets as fast as that core lets them, or a swarm that is attacked instead.
type besides struct {
	Kind    string // "busy", "decoy", "attack" or one of prefixes
	Targets []target
}

type target struct {
	Peer  swarm.PeerID
	Addrs []string
	Span  swarm.Span
}

const besidesEnv = "WHORL_BESIDES"

// TestBesides is that process; without its orders it is no test.
func TestBesides(t *testing.T) {
	var b besides
	text := os.Getenv(besidesEnv)
	if text == "" {
		return
	}
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		t.Fatal(err)
	}
	if b.Kind == "busy" {
		for { // the process is ended
		}
	}
	if b.Kind == "decoy" {
		json.NewEncoder(os.Stdout).Encode(targets(New(t, lively)))
		select {}
	}
	var all sync.WaitGroup
	if _, ok := floods[b.Kind]; ok || b.Kind == "handshake" {
		var tried, answered atomic.Int64
		for _, to := range b.Targets {
			for range 4 {
				all.Go(func() { to.storm(t, b.Kind, &tried, &answered) })
			}
		}
		for out := json.NewEncoder(os.Stdout); ; <-time.After(50 * time.Millisecond) {
			out.Encode(tally{tried.Load(), answered.Load()})
		}
	}
	for _, to := range b.Targets {
		for kind := range 4 * len(protocols) {
			all.Go(func() { to.attack(t, kind%len(protocols)) })
		}
	}
	all.Wait()
}

// attack opens streams of a protocol and sends what is broken, half, or no end of small frames, one
// identity after the other.
func (to *target) attack(t *testing.T, kind int) {
	rng := newRand(kind, 1)
	o := wire.Open{
		Version: wire.Version, UID: swarmtest.FakeManifest.UID(), Span: to.Span, MaxLength: 8, Activations: "f32", Route: wire.Route{Epoch: 1, Journal: -1},
	}
	o.Mode = o.SessionMode().Hash()
	for {
		h := newcomer(t)
		h.AddAddrs(to.Peer, to.Addrs)
		for range 1000 {
			s, err := h.Dial(t.Context(), to.Peer, protocols[kind].id)
			if err != nil {
				break
			}
			s.SetDeadline(time.Now().Add(time.Second))
			o.Session = wire.SessionID{byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())}
			first := map[wire.Type]any{
				wire.TypeOpen: o, wire.TypeHello: wire.Hello{Version: wire.Version, Session: o.Session, Epoch: 1},
				wire.TypePull: wire.Pull{Version: wire.Version, Swarm: "main", Most: wire.MaxOffered},
			}[protocols[kind].first]
			b := wire.AppendJSON(nil, protocols[kind].first, first)
			switch rng.IntN(3) {
			case 0: // noise
				for range 4 {
					b[rng.IntN(len(b))] = byte(rng.Uint32())
				}
				s.Write(b)
			case 1: // a good beginning, and questions without end
				b = wire.AppendFrame(b, wire.TypeCommit)
				for range 500 {
					b = wire.AppendFrame(b, wire.TypeAsk)
				}
				s.Write(b)
				io.CopyN(io.Discard, s, 256)
			case 2: // an answer that is read
				s.Write(b)
				io.CopyN(io.Discard, s, 64)
			}
			s.Reset()
		}
		h.Close()
	}
}

// targets are the servers of a World.
func targets(w *World) (all []target) {
	for _, n := range w.Servers {
		all = append(all, target{n.Host.ID(), n.Host.ListenAddrs(), *n.Server.Status().Span})
	}
	return all
}

// BenchmarkHonestBesideAttackers measures honest answers beside attackers that have one core to
// themselves, and beside a busy loop on that core, in turns. The share of the first in the second
// should be 0.7 or more.
func BenchmarkHonestBesideAttackers(b *testing.B) { beside(b, "attack", "busy") }

// BenchmarkStreamBesideFloods: what floods of strangers, on a core of their own, leave of the speed that
// honest answers have on another core. Three speeds are taken in turns: beside the flood, beside the same
// flood of a decoy, which is a swarm on the attacker's core, and beside nothing. The share of the first in the
// second is what the nodes' own work for the flood takes, and should be 0.9 or more; in the share of
// nothing is also what a busy core takes from another one of this machine, whatever it works on. Shares are of tokens in a second of
// the nodes' processor time, which is the speed of a core that does nothing else, and "seen" those in a second.
func BenchmarkStreamBesideFloods(b *testing.B) {
	for _, kind := range []string{"pull", "reach", "reserve", "handshake"} {
		b.Run(kind, func(b *testing.B) { beside(b, kind, "decoy", "nothing") })
	}
}

// beside measures honest answers, all of whose nodes have the last core, beside one kind of attackers
// on the first core, and beside others there, in turns. It reports the median of the shares of
// that speed in each other.
func beside(b *testing.B, kind string, others ...string) {
	taskset, err := exec.LookPath("taskset")
	if err != nil || runtime.NumCPU() < 2 {
		b.Skip("two cores, and taskset, which gives a process one of them, are not here")
	}
	pin := exec.Command(taskset, "-a", "-c", "-p", fmt.Sprint(runtime.NumCPU()-1), fmt.Sprint(os.Getpid()))
	if out, err := pin.CombinedOutput(); err != nil {
		b.Skipf("this process cannot be given one core: %v: %s", err, out)
	}
	w := New(b, lively)
	// begin lets something run until it is ended.
	begin := func(kind string, out io.Writer, at []target) (end func()) {
		orders, _ := json.Marshal(besides{kind, at})
		cmd := exec.Command(taskset, "-c", "0", os.Args[0], "-test.run", "^TestBesides$")
		cmd.Env, cmd.Stdout = append(os.Environ(), besidesEnv+"="+string(orders)), out
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		return func() {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	attack := func(at []target) (end func()) { return begin(kind, nil, at) }
	runs := map[string]func() (end func()){
		"busy":    func() func() { return begin("busy", nil, nil) },
		"nothing": func() func() { return func() {} },
		kind:      func() func() { return attack(targets(w)) },
	}
	// What may be done at once is spent when both servers have shut the attacker out.
	begun := time.Now()
	end := attack(targets(w))
	for kind != "attack" && slices.ContainsFunc(w.Servers, func(n *Node) bool { return n.metric("whorl_shut_out") == 0 }) {
		<-time.After(50 * time.Millisecond)
	}
	if kind == "attack" {
		<-time.After(3 * time.Second)
	}
	end()
	if slices.Contains(others, "decoy") {
		in, out := io.Pipe()
		b.Cleanup(begin("decoy", out, nil))
		var decoys []target
		if err := json.NewDecoder(in).Decode(&decoys); err != nil {
			b.Fatal(err)
		}
		go io.Copy(io.Discard, in)
		runs["decoy"] = func() func() { return attack(decoys) }
		took := time.Since(begun)
		end := attack(decoys)
		<-time.After(took) // it shares the core
		end()
	}
	// speed is in tokens a second, and in tokens a second of the nodes' processor time.
	speed := func(beside string) (seen, own float64) {
		defer runs[beside]()()
		<-time.After(500 * time.Millisecond) // until it is at work
		tokens, begin := 0, time.Now()
		worked := meter.Worked(b, func() {
			for time.Since(begin) < time.Second {
				if err := w.Ask([]int32{1, 7, 3, 11}, 100); err != nil {
					b.Fatalf("beside %s: %v", beside, err)
				}
				tokens += 100
			}
		})
		return float64(tokens) / time.Since(begin).Seconds(), float64(tokens) / worked.Seconds()
	}
	figures := map[string][]float64{}
	note := func(name string, figure float64) { figures[name] = append(figures[name], figure) }
	for b.Loop() {
		for range 5 {
			seen, own := speed(kind)
			for _, other := range others {
				seenOther, ownOther := speed(other)
				note("tok/s-beside-"+other, seenOther)
				note("share-of-"+other, own/ownOther)
				note("seen-of-"+other, seen/seenOther)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, all := range figures {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name)
	}
}
