package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/internal/sysmem"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// When memory counts as short, and how much of it sessions must give.
func TestShortage(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	at := func(left, of int64, stalled float64) sysmem.Pressure {
		return sysmem.Pressure{Left: left, Of: of, Stalled: stalled}
	}
	for _, c := range []struct {
		name  string
		p     sysmem.Pressure
		short bool
		lack  int64
	}{
		{"plenty", at(8*gib, 16*gib, 0), false, 0},
		{"just enough of a small limit", at(64*mib, 512*mib, 0), false, 0},
		{"too little of a small limit", at(63*mib, 512*mib, 0), true, 33 * mib},
		{"a twentieth", at(150*mib, 4*gib, 0), true, 4*gib/20*3/2 - 150*mib},
		{"never more than half a GiB", at(600*mib, 1024*gib, 0), false, 0},
		{"stalls while little is left", at(2*gib, 16*gib, 0.1), true, -1},
		{"stalls of others", at(8*gib, 16*gib, 0.9), false, 0},
		{"a system that does not say how much there is", at(63*mib, 0, 0), true, 33 * mib},
	} {
		var m shortage
		if lack := m.take(c.p, time.Unix(1, 0)); (m.short != "") != c.short || lack != c.lack {
			t.Errorf("%s: short %q, %d bytes are to be given", c.name, m.short, lack)
		}
	}
	// It is over only when there has been clearly enough for a while.
	var m shortage
	now := time.Unix(1, 0)
	for i, c := range []struct {
		left  int64
		after time.Duration
		short bool
	}{{60 * mib, 0, true}, {70 * mib, time.Minute, true}, {96 * mib, time.Second, true}, {70 * mib, 9 * time.Second, true}, {96 * mib, time.Second, true},
		{96 * mib, 9 * time.Second, true}, {96 * mib, time.Second, false}, {70 * mib, time.Second, false}} {
		now = now.Add(c.after)
		if m.take(at(c.left, gib, 0), now); (m.short != "") != c.short {
			t.Errorf("look %d: %q", i, m.short)
		}
	}
}

// group is a folder of files as Linux has them, of a process in a control group with a limit of
// 1 GiB.
type group struct{ dir string }

func newGroup(t *testing.T) group {
	g := group{t.TempDir()}
	for _, dir := range []string{"proc/self", "sys/fs/cgroup/a"} {
		if err := os.MkdirAll(filepath.Join(g.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g.write(t, "proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n")
	g.write(t, "proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	g.write(t, "proc/self/cgroup", "0::/a\n")
	g.write(t, "sys/fs/cgroup/a/memory.max", "1073741824\n")
	g.left(t, 512)
	return g
}

func (g group) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (g group) left(t *testing.T, mib int) {
	t.Helper()
	g.write(t, "sys/fs/cgroup/a/memory.current", fmt.Sprintln((1024-mib)<<20))
}

// A server whose control group is nearly used up takes no more sessions, gives back what nobody
// uses, and then parks the session that is least used; its client is told to replay. When there is
// memory again it takes sessions as before.
func TestMemoryIsShort(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		g := newGroup(t)
		n := w.serve("a", span, func(c *Config, n *node) { n.memory = sysmem.NewWatcher(os.DirFS(g.dir)).Read })
		open := func(id byte, length int) *peer {
			return w.opened(n, "client", span, func(o *wire.Open) { o.Session, o.MaxLength = wire.SessionID{id}, length })
		}
		in := input(1, 3)
		var peers []*peer
		for id := range byte(3) { // the first one rests for the longest
			p := open(id+1, 64)
			p.rows(in, 0, 3, 2)
			p.expect(wire.TypeRows)
			peers = append(peers, p)
			time.Sleep(time.Second)
		}
		line := w.dial(n, "another") // more than there is: it waits
		line.send(wire.TypeOpen, func() wire.Open {
			o := openMsg(span)
			o.Session, o.MaxLength, o.WaitMillis = wire.SessionID{9}, 15*64, 60_000
			return o
		}())
		synctest.Wait()
		if st := n.Status(); st.Memory == nil || st.Memory.Short != "" || st.Memory.Left != 512<<20 || st.Memory.Of != 1<<30 {
			t.Fatalf("before: %+v", st.Memory)
		}

		g.left(t, 40)
		time.Sleep(memoryEvery + time.Millisecond)
		synctest.Wait()
		st := n.Status()
		if m := st.Memory; m.Short == "" || !strings.Contains(m.Short, "memory.max of 1024 MiB of control group /a leaves 40.0 MiB") || m.Since == nil || st.Sessions != 3 || len(n.engine.freed) == 0 {
			t.Errorf("at first: %+v, %d sessions, pages given back: %v", m, st.Sessions, n.engine.freed)
		}
		line.refusal(swarm.CodeLowMemory, swarm.Elsewhere)
		newcomer := w.dial(n, "client")
		newcomer.send(wire.TypeOpen, openMsg(span))
		newcomer.refusal(swarm.CodeLowMemory, swarm.Elsewhere)
		time.Sleep(n.cfg.Timeouts.Coalesce)
		if left := w.last("a").CacheLeft; left != 0 {
			t.Errorf("%d tokens of cache are announced", left)
		}
		g.left(t, 70) // not enough to be calm, and enough to park nobody else
		peers[0].refusal(swarm.CodeLowMemory, swarm.Replay)
		synctest.Wait()
		parked := n.Status().Memory.Parked
		if parked == 0 {
			t.Error("nobody was parked")
		}
		time.Sleep(time.Minute)
		if n.Status().Memory.Parked != parked || n.Status().Memory.Short == "" {
			t.Errorf("later: %+v", n.Status().Memory)
		}
		g.left(t, 512)
		time.Sleep(calmFor + 2*memoryEvery)
		if m := n.Status().Memory; m.Short != "" {
			t.Errorf("after: %+v", m)
		}
		again := open(1, 64)
		again.rows(in, 0, 3, 2)
		if h := again.expect(wire.TypeRows); !equalBits(h.rows, reference(in, 0, 6)[2*hidden:]) {
			t.Errorf("another result on pages that were given back: %v", h)
		}
		for _, p := range append(peers, line, newcomer, again) {
			p.close()
		}
		n.idle(t)
	})
}

// Where nobody uses much, all sessions go before the kernel would act, and the server stays.
func TestMemoryStaysShort(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 6}
		g := newGroup(t)
		n := w.serve("a", span, func(c *Config, n *node) { n.memory = sysmem.NewWatcher(os.DirFS(g.dir)).Read })
		g.left(t, 300)
		g.write(t, "sys/fs/cgroup/a/memory.pressure", "full avg10=30.00 avg60=0.00 avg300=0.00 total=0\n")
		var peers []*peer
		for id := range byte(4) {
			peers = append(peers, w.opened(n, "client", span, func(o *wire.Open) { o.Session, o.MaxLength = wire.SessionID{id + 1}, 64 }))
		}
		time.Sleep(10 * time.Second) // 300 of 1024 MiB: stalls are those of others
		if n.Status().Sessions != 4 {
			t.Error("a session was parked although there is memory")
		}
		g.left(t, 200)
		at := time.Now()
		for _, p := range peers {
			p.refusal(swarm.CodeLowMemory, swarm.Replay)
			p.close()
		}
		if took := time.Since(at); took > 5*memoryEvery {
			t.Errorf("parked after %v", took)
		}
		time.Sleep(time.Minute)
		if st := n.Status(); st.State != swarm.Online || st.Memory.Parked != 4 {
			t.Errorf("%v: %+v", st.State, st.Memory)
		}
		n.idle(t)
	})
}

// A system that does not tell leaves the server as it is.
func TestMemoryIsNotWatched(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var none *sysmem.Watcher
		n := w.serve("a", swarm.Span{Start: 0, End: 6}, func(c *Config, n *node) { n.memory = none.Read })
		time.Sleep(time.Minute)
		if st := n.Status(); st.State != swarm.Online || st.Memory != nil {
			t.Errorf("%+v", st)
		}
	})
}
