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

	"whorl/internal/swarmtest"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// besides is what runs beside honest users, in a process of its own that has one core: a busy
// loop, or attackers of the targets as fast as that core lets them.
type besides struct {
	Kind    string // "busy" or "attack"
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

// BenchmarkHonestBesideAttackers measures honest answers beside attackers that have one core to
// themselves, and beside a busy loop on that core, in turns. The share of the first in the second
// should be 0.7 or more.
func BenchmarkHonestBesideAttackers(b *testing.B) { beside(b, "attack", "busy") }

// BenchmarkStreamBesideFloods: what floods of strangers, on a core of their own, leave of the speed that
// honest answers have on another core when nothing else runs: all that the nodes' own work for the
// floods takes, and nothing of the attackers'. It should be 0.9 or more.
func BenchmarkStreamBesideFloods(b *testing.B) {
	for _, kind := range []string{"pull", "reach", "reserve", "handshake"} {
		b.Run(kind, func(b *testing.B) { beside(b, kind, "nothing") })
	}
}

// beside measures honest answers, all of whose nodes have the last core, beside one kind of attackers
// on the first core, or on all others, and beside something else there, in turns. It reports the median of the shares of
// each speed in the one that follows.
func beside(b *testing.B, kind, other string) {
	taskset, err := exec.LookPath("taskset")
	if err != nil || runtime.NumCPU() < 2 {
		b.Skip("two cores, and taskset, which gives a process one of them, are not here")
	}
	pin := exec.Command(taskset, "-a", "-c", "-p", fmt.Sprint(runtime.NumCPU()-1), fmt.Sprint(os.Getpid()))
	if out, err := pin.CombinedOutput(); err != nil {
		b.Skipf("this process cannot be given one core: %v: %s", err, out)
	}
	w := New(b, Options{Host: counted})
	targets := []target{}
	for _, n := range w.Servers {
		targets = append(targets, target{n.Host.ID(), n.Host.ListenAddrs(), *n.Server.Status().Span})
	}
	// begin lets it run until the end of the benchmark; speed lets it run for some time.
	begin := func(kind string) *exec.Cmd {
		orders, _ := json.Marshal(besides{kind, targets})
		cmd := exec.Command(taskset, "-c", "0", os.Args[0], "-test.run", "^TestBesides$")
		cmd.Env = append(os.Environ(), besidesEnv+"="+string(orders))
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		return cmd
	}
	speed := func(kind string) float64 {
		if kind != "nothing" {
			cmd := begin(kind)
			defer func() {
				cmd.Process.Kill()
				cmd.Wait()
			}()
			<-time.After(500 * time.Millisecond) // until it is at work
		}
		tokens, begin := 0, time.Now()
		for time.Since(begin) < time.Second {
			if err := w.Ask([]int32{1, 7, 3, 11}, 100); err != nil {
				b.Fatalf("beside %s: %v", kind, err)
			}
			tokens += 100
		}
		return float64(tokens) / time.Since(begin).Seconds()
	}
	spend := begin(kind) // what may be done at once
	<-time.After(3 * time.Second)
	spend.Process.Kill()
	spend.Wait()
	var shares, speeds []float64
	for b.Loop() {
		for range 5 {
			attacked, quiet := speed(kind), speed(other)
			shares, speeds = append(shares, attacked/quiet), append(speeds, quiet)
		}
	}
	middle := func(all []float64) float64 { slices.Sort(all); return all[len(all)/2] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(middle(speeds), "tok/s-beside-"+other)
	b.ReportMetric(middle(shares), "share")
	b.ReportMetric(shares[0], "share-least")
}
