package server

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/internal/sysmem"
	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// states lists what a server has announced, without repeats.
func (w *world) states(id swarm.PeerID) []swarm.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []swarm.State
	for _, r := range w.records[id] {
		out = append(out, r.State)
	}
	return slices.Compact(out)
}

func (w *world) last(id swarm.PeerID) swarm.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records[id][len(w.records[id])-1]
}

func TestLife(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", swarm.Span{Start: 1, End: 5}, func(c *Config, _ *node) { c.PublicName, c.Version, c.Timeouts.Idle = "ada", "1", time.Hour })
		synctest.Wait()
		r := w.last("a")
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
		if r.Span.String() != "1:5" || r.State != swarm.Online || r.UID != manifest.UID() ||
			r.CacheTotal != cachePages*64 || r.CacheLeft != r.CacheTotal || r.MaxLength != cachePages*64 || r.PublicName != "ada" || r.Protocol != wire.Version {
			t.Errorf("announced %+v", r)
		}
		if r.Rates.InferenceRPS == nil || *r.Rates.InferenceRPS != 100 || *r.Rates.ForwardRPS != 700 || r.Rates.NetworkRPS != nil || r.Throughput != 700/2.5 {
			t.Errorf("rates %+v, throughput %v", r.Rates, r.Throughput)
		}
		st, held := n.Status(), n.Blocks()
		if st.Rates.AssumedRPS == nil || *st.Rates.AssumedRPS <= 0 {
			t.Error("the status does not say what is assumed of the link")
		}
		if st.State != swarm.Online || st.Span.String() != "1:5" || len(held) != 4 || held[0].State != "loaded" || st.UID != manifest.UID() {
			t.Errorf("status %+v, blocks %+v", st, held)
		}

		// The cache that is left is announced soon after it has changed.
		p := w.opened(n, "client", swarm.Span{Start: 1, End: 5}, nil)
		time.Sleep(2 * n.cfg.Timeouts.Coalesce)
		if r := w.last("a"); r.CacheLeft != (cachePages-4)*64 {
			t.Errorf("%d tokens left are announced", r.CacheLeft)
		}
		before := w.last("a").Seq
		time.Sleep(10*n.cfg.Timeouts.Update + time.Second)
		if more := w.last("a").Seq - before; more != 10 {
			t.Errorf("%d announcements in 10 periods", more)
		}

		// The node is stopped: the session may go on for a while.
		n.stop()
		p.rows(input(1, 1), 0, 1, 0)
		p.expect(wire.TypeRows)
		time.Sleep(time.Second)
		if r := w.last("a"); r.State != swarm.Draining {
			t.Errorf("announced %v", r.State)
		}
		start := time.Now()
		p.refusal(swarm.CodeDraining, swarm.Elsewhere)
		if err := <-n.done; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > n.cfg.Timeouts.Drain+time.Second {
			t.Errorf("drained for %v", took)
		}
		if got := w.states("a"); !slices.Equal(got, []swarm.State{swarm.Joining, swarm.Online, swarm.Draining, swarm.Offline}) {
			t.Errorf("announced %v", got)
		}
		if !n.engine.closed {
			t.Error("the engine is still open")
		}
	})
}

// A server that loads for an hour stays in sight of others, with how far it is, until it is
// online.
func TestLongLoad(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		n := w.start("a", func(c *Config, n *node) {
			c.Span = &swarm.Span{Start: 1, End: 5}
			n.loader.takes = time.Hour
			n.loading = func() *swarm.Loading {
				return swarm.NewLoading(int64(time.Since(began).Seconds()), 3600, 1)
			}
		})
		for range 10 {
			time.Sleep(5 * time.Minute)
			r := w.last("a")
			if age := time.Since(time.UnixMilli(r.Issued)); r.State != swarm.Joining || age > n.cfg.Timeouts.Update {
				t.Fatalf("announced %v, %v ago", r.State, age)
			}
			if l := r.Loading; l == nil || math.Abs(float64(l.Bytes)-time.Since(began).Seconds()) > n.cfg.Timeouts.Update.Seconds()+1 {
				t.Errorf("after %v it says %+v", time.Since(began), l)
			}
		}
		time.Sleep(11 * time.Minute)
		if r := w.last("a"); r.State != swarm.Online || r.Loading != nil {
			t.Errorf("in the end: %v, %+v", r.State, r.Loading)
		}
		n.stop()
		if err := <-n.done; err != nil {
			t.Error(err)
		}
		if got := w.states("a"); !slices.Equal(got, []swarm.State{swarm.Joining, swarm.Online, swarm.Draining, swarm.Offline}) {
			t.Errorf("announced %v", got)
		}
	})
}

func TestStopsAtOnceWithoutSessions(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", swarm.Span{Start: 0, End: 2}, nil)
		start := time.Now()
		n.stop()
		if err := <-n.done; err != nil || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A server that is stopped while it waits to join says that it does not come, and that is no
// failure.
func TestStopsWhileJoining(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.start("a", func(c *Config, _ *node) { c.NumBlocks, c.Seed = 2, 1 })
		synctest.Wait()
		n.stop()
		if err := <-n.done; err != nil {
			t.Error(err)
		}
		if got := w.states("a"); !slices.Equal(got, []swarm.State{swarm.Joining, swarm.Offline}) {
			t.Errorf("announced %v", got)
		}
	})
}

// An operator who resumes a server that is being stopped does not keep it alive.
func TestResumeWhileStopping(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", swarm.Span{Start: 0, End: 2}, nil)
		p := w.opened(n, "client", swarm.Span{Start: 0, End: 2}, nil)
		start := time.Now()
		n.stop()
		synctest.Wait()
		n.Resume()
		p.refusal(swarm.CodeDraining, swarm.Elsewhere)
		if err := <-n.done; err != nil || time.Since(start) > n.cfg.Timeouts.Drain+time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		p.close()
	})
}

// A server that cannot announce itself ends the sessions that came meanwhile.
func TestAnnouncingFails(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 2}
		var p *peer
		w.hear = func(r swarm.Record) error {
			if r.State != swarm.Online {
				return nil
			}
			p = w.opened(w.servers["a"], "client", span, nil)
			return errors.New("no directory")
		}
		n := w.start("a", func(c *Config, _ *node) { c.Span = &span })
		if err := <-n.done; err == nil || !strings.Contains(err.Error(), "no directory") {
			t.Error(err)
		}
		p.refusal(swarm.CodeDraining, swarm.Elsewhere)
		p.close()
		n.idle(t)
	})
}

// A share of the cache that is less than a token is small, not endless.
func TestTinyShareOfCache(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 2}
		n := w.serve("a", span, func(c *Config, _ *node) { c.PeerCache = 1e-9 })
		p := w.dial(n, "client")
		p.send(wire.TypeOpen, openMsg(span))
		p.refusal(swarm.CodeTooMany, swarm.Elsewhere)
		p.close()
		n.idle(t)
	})
}

// Servers that start together announce what they intend, look again, and spread.
func TestServersThatStartTogetherSpread(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var nodes []*node
		for i, id := range []swarm.PeerID{"a", "b", "c"} {
			nodes = append(nodes, w.start(id, func(c *Config, _ *node) {
				c.NumBlocks, c.Seed = 2, uint64(i)
			}))
		}
		var covered []string
		for _, n := range nodes {
			<-n.Ready()
			covered = append(covered, n.Status().Span.String())
		}
		slices.Sort(covered)
		if !slices.Equal(covered, []string{"0:2", "2:4", "4:6"}) {
			t.Errorf("they hold %v", covered)
		}
	})
}

func TestRunFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config, *node)
		load   error
		want   string
	}{
		{"too little memory", func(c *Config, _ *node) { c.Span, c.Memory = &swarm.Span{Start: 0, End: 6}, 9000 }, nil,
			"6 blocks need 128.0 MiB"},
		{"dry run", func(c *Config, _ *node) { c.NumBlocks, c.Measuring = 1, MeasureDryRun }, nil, "throughput measured"},
		{"broken weights", func(c *Config, _ *node) { c.NumBlocks = 1 }, errors.New("checksum"), "load blocks 0:1 of fake: checksum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				cfg := DefaultConfig()
				cfg.Manifest, cfg.Memory, cfg.Spare, cfg.CacheToken = manifest, 1<<28, 0, 256
				c.change(&cfg, nil)
				s, err := New(cfg, Deps{
					Self: "a", Loader: &fakeLoader{engine: &fakeEngine{}, sizes: blocks.Sizes{Block: 1000, Token: 4}, err: c.load},
					Directory: w, Dialer: fakeDialer{w, "a"}, Metrics: prometheus.NewRegistry(),
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if got := w.states("a"); len(got) > 0 && got[len(got)-1] != swarm.Offline {
					t.Errorf("announced %v", got)
				}
			})
		})
	}
}

func TestDeclaredThroughput(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.serve("a", swarm.Span{Start: 0, End: 6}, func(c *Config, _ *node) { c.Measuring, c.Throughput = MeasureNever, 42 })
		if r := w.last("a"); r.Throughput != 42 || r.Rates != (swarm.Rates{}) {
			t.Errorf("throughput %v, rates %+v", r.Throughput, r.Rates)
		}
	})
}

type fakePinger map[swarm.PeerID]time.Duration

func (f fakePinger) Ping(ctx context.Context, p swarm.PeerID) (time.Duration, error) {
	d, ok := f[p]
	if !ok {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return d, nil
}

func TestRoundTripsToSuccessors(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.serve("near", swarm.Span{Start: 2, End: 6}, nil)
		w.serve("mute", swarm.Span{Start: 2, End: 6}, nil)
		w.serve("elsewhere", swarm.Span{Start: 0, End: 2}, nil)
		w.serve("a", swarm.Span{Start: 0, End: 2}, func(_ *Config, n *node) {
			n.pinger = fakePinger{"near": 1500 * time.Microsecond, "elsewhere": time.Second}
		})
		time.Sleep(5 * time.Second)
		if r := w.last("a"); len(r.NextRTT) != 1 || r.NextRTT["near"] != 1.5 {
			t.Errorf("round trips %v", r.NextRTT)
		}
	})
}

func TestPlanMemory(t *testing.T) {
	z := blocks.Sizes{Block: 100 << 20, Token: 1 << 10, Workspace: 50 << 20}
	shared := z
	shared.Shared = true
	adapted := z
	adapted.Adapters = 20 << 20
	for _, c := range []struct {
		name   string
		z      blocks.Sizes
		room   Room
		head   int64
		asked  int
		tokens int
		want   string
	}{
		{"as many as fit", z, Room{Bytes: 2 << 30}, 0, 0, 0, "15 blocks: weights 1.46 GiB, cache 60.0 MiB (4096 tokens), buffers 50.1 MiB, network 96.0 MiB, queues 128.0 MiB, spare 213.9 MiB of 2.00 GiB"},
		{"shared heads, more cache", shared, Room{Bytes: 2 << 30}, 0, 0, 0, "13 blocks: weights 1.27 GiB, cache 208.0 MiB (16384 tokens), buffers 50.5 MiB, network 96.0 MiB, queues 128.0 MiB, spare 265.5 MiB of 2.00 GiB"},
		{"never more than the model has", z, Room{Bytes: 1 << 40}, 0, 0, 64, "30 blocks: weights 2.93 GiB, cache 1.9 MiB (64 tokens), buffers 50.0 MiB, network 96.0 MiB, queues 2.00 GiB, spare 1018.93 GiB of 1024.00 GiB"},
		{"cache in whole pages", z, Room{Bytes: 2 << 30}, 0, 1, 65, "1 blocks: weights 100.0 MiB, cache 0.1 MiB (128 tokens), buffers 50.0 MiB, network 96.0 MiB, queues 128.0 MiB, spare 1.63 GiB of 2.00 GiB"},
		{"adapters count", adapted, Room{Bytes: 2 << 30}, 0, 0, 0, "13 blocks: weights 1.27 GiB, adapters 260.0 MiB, cache 52.0 MiB (4096 tokens), buffers 50.1 MiB, network 96.0 MiB, queues 128.0 MiB, spare 161.9 MiB of 2.00 GiB"},
		{"too many by hand", z, Room{Bytes: 1 << 30}, 0, 10, 0, "not enough memory: 10 blocks need 1.38 GiB (weights 1000.0 MiB, cache of 4096 tokens 40.0 MiB, buffers 50.1 MiB, network 96.0 MiB, queues 64.0 MiB, spare 160.0 MiB) and 1.00 GiB is there: hold fewer blocks (--num-blocks) or a smaller cache (--attn-cache-tokens)"},
		{"not even one", z, Room{Bytes: 200 << 20}, 0, 0, 0, "not enough memory: 1 block needs 474.1 MiB (weights 100.0 MiB, cache of 4096 tokens 4.0 MiB, buffers 50.1 MiB, network 96.0 MiB, queues 64.0 MiB, spare 160.0 MiB) and 200.0 MiB is there: take a smaller cache (--attn-cache-tokens), or more --memory if the machine has it"},
		{"the head of a gateway counts", z, Room{Bytes: 2 << 30}, 512 << 20, 0, 0, "10 blocks: weights 1000.0 MiB, head 512.0 MiB, cache 40.0 MiB (4096 tokens), buffers 50.1 MiB, network 96.0 MiB, queues 128.0 MiB, spare 221.9 MiB of 2.00 GiB"},
		{"no room beside the head", z, Room{Bytes: 1 << 30}, 900 << 20, 0, 0, "not enough memory: 1 block needs 1.34 GiB (weights 100.0 MiB, head 900.0 MiB, cache of 4096 tokens 4.0 MiB, buffers 50.1 MiB, network 96.0 MiB, queues 64.0 MiB, spare 160.0 MiB) and 1.00 GiB is there: let a gateway elsewhere hold the head (--http off), or take a smaller cache (--attn-cache-tokens), or more --memory if the machine has it"},
		{"a tenth of what is free is kept", z, roomOf(sysmem.Free{Bytes: 2 << 30}), 0, 0, 0, "13 blocks: weights 1.27 GiB, cache 52.0 MiB (4096 tokens), buffers 50.1 MiB, network 96.0 MiB, queues 115.2 MiB, spare 229.9 MiB of 1.80 GiB, which is what is free (2.00 GiB) less a tenth (204.8 MiB)"},
		{"a control group is named", z, roomOf(sysmem.Free{Bytes: 500 << 20, Limit: "memory.max of 512 MiB of control group /a"}), 0, 9, 0, "not enough memory: 9 blocks need 1.28 GiB (weights 900.0 MiB, cache of 4096 tokens 36.0 MiB, buffers 50.1 MiB, network 96.0 MiB, queues 64.0 MiB, spare 160.0 MiB) and 450.0 MiB is there, what memory.max of 512 MiB of control group /a leaves (500.0 MiB) less a tenth (50.0 MiB): hold fewer blocks (--num-blocks) or a smaller cache (--attn-cache-tokens)"},
	} {
		p, err := planMemory(c.z, c.room, 0, 160<<20, 96<<20, c.head, c.asked, 30, c.tokens)
		got := p.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Manifest.Blocks = 0 },
		func(c *Config) { c.Span = &swarm.Span{Start: 3, End: 7} },
		func(c *Config) { c.Span, c.NumBlocks = &swarm.Span{Start: 0, End: 2}, 3 },
		func(c *Config) { c.NumBlocks = -1 },
		func(c *Config) { c.StepRows = 1 },
		func(c *Config) { c.PeerCache = 1.5 },
		func(c *Config) { c.Throughput = -1 },
		func(c *Config) { c.Throughput = math.Inf(1) },
		func(c *Config) { c.PeerCache = math.NaN() },
		func(c *Config) { c.CacheToken = 1 << 60 },
		func(c *Config) { c.MaxSessions = 0 },
	} {
		cfg := DefaultConfig()
		cfg.Manifest = manifest
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&cfg)
		if cfg.Validate() == nil {
			t.Errorf("accepted: %+v", cfg)
		}
	}
}

func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reg := prometheus.NewRegistry()
		span := swarm.Span{Start: 0, End: 6}
		n := w.serve("a", span, func(_ *Config, n *node) { n.metricsTo = reg })
		p := w.opened(n, "client", span, nil)
		p.rows(input(1, 9), 0, 5, 5)
		p.position(5)
		p.rows(input(1, 9), 0, 2, 5)
		p.position(5)
		p.rows(input(1, 9), 7, 8, 5)
		p.refusal(swarm.CodeGap, swarm.Replay)
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			m := f.GetMetric()[0]
			got[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		for name, want := range map[string]float64{
			"whorl_server_steps_total": 1, "whorl_server_rows_total": 5, "whorl_server_step_sessions_total": 1, "whorl_server_step_seconds": 1,
			"whorl_server_step_wait_seconds_total": 0, "whorl_server_prefill_rows_total": 5,
			"whorl_server_duplicate_rows_total": 2, "whorl_server_failures_total": 1, "whorl_server_sessions": 1, "whorl_server_queue_rows": 0,
			"whorl_server_cache_tokens": cachePages * 64, "whorl_server_cache_used_tokens": 256,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s is %v, want %v", name, v, want)
			}
		}
		p.close()
	})
}

// A server that is drained before it is online loads its blocks and takes no session, until it is
// resumed.
func TestDrainedFromTheStart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.start("a", func(c *Config, n *node) {
			c.Span = &swarm.Span{Start: 1, End: 5}
			n.loader.takes = time.Minute
		})
		n.Drain(0)
		<-n.Ready()
		if st := n.Status(); st.State != swarm.Draining {
			t.Errorf("it is %v", st.State)
		}
		if got := w.states("a"); !slices.Equal(got, []swarm.State{swarm.Joining, swarm.Draining}) {
			t.Errorf("announced %v", got)
		}
		if err := n.Emptied(t.Context(), func(int) {}); err != nil {
			t.Error(err)
		}
		n.Resume()
		n.Tell(t.Context())
		if r := w.last("a"); r.State != swarm.Online {
			t.Errorf("resumed it announces %v", r.State)
		}
		w.opened(n, "client", swarm.Span{Start: 1, End: 5}, nil)

		// Who drains a server while its blocks are loaded anew finds it drained when they are.
		restarted := make(chan error, 1)
		go func() { restarted <- n.Restart(t.Context()) }()
		synctest.Wait()
		if st := n.Status(); st.State != swarm.Joining {
			t.Errorf("it is %v while its blocks are loaded anew", st.State)
		}
		n.Drain(0)
		if err := <-restarted; err != nil {
			t.Error(err)
		}
		if st := n.Status(); st.State != swarm.Draining {
			t.Errorf("it is %v once they are loaded", st.State)
		}
		n.stop()
		if err := <-n.done; err != nil {
			t.Error(err)
		}
	})
}
