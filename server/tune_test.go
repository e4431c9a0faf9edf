package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// What a server permits and promises changes while it serves: new sessions meet the new caps, and
// those that run stay.
func TestTune(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: 3}
		n := w.serve("a", span, nil)
		p := w.opened(n, "one", span, nil)
		q := w.opened(n, "two", span, func(o *wire.Open) { o.Session = wire.SessionID{2} })
		if err := n.Tune(func(c *Config) { c.MaxSessions, c.PublicName, c.Manifest.Name = 1, "new", "other" }); err != nil {
			t.Fatal(err)
		}
		p.rows(input(1, 2), 0, 2, 0)
		p.position(2)
		r := w.dial(n, "three")
		o := openMsg(span)
		o.Session = wire.SessionID{3}
		r.send(wire.TypeOpen, o)
		if f := r.refusal(swarm.CodeTooMany, swarm.Elsewhere); !strings.Contains(f.Message, "1") {
			t.Errorf("refused for %q", f.Message)
		}
		time.Sleep(5 * time.Second)
		if rec := w.last("a"); rec.PublicName != "new" || rec.Manifest.Name != manifest.Name {
			t.Errorf("announced %q of %q", rec.PublicName, rec.Manifest.Name)
		}
		p.close()
		q.close()
		synctest.Wait()
		if err := n.Tune(func(c *Config) { c.MaxSessions, c.Timeouts.Idle = 5, time.Minute }); err != nil {
			t.Fatal(err)
		}
		p = w.opened(n, "one", span, nil)
		p.rows(input(1, 1), 0, 1, 0)
		p.position(1)
		time.Sleep(50 * time.Second)
		if len(n.Sessions()) != 1 {
			t.Error("an idle session ends early")
		}
		time.Sleep(15 * time.Second)
		if len(n.Sessions()) != 0 {
			t.Error("an idle session stays")
		}
		p.close()
		for _, wrong := range []func(*Config){func(c *Config) { c.MaxSessions = 0 }, func(c *Config) { c.PeerCache = 2 }, func(c *Config) { c.Throughput = -1 }} {
			if err := n.Tune(wrong); err == nil {
				t.Error("a wrong value is taken")
			}
		}

		// A declared throughput takes the place of what was measured, and gives it back.
		if st := n.Status(); st.Rates.ForwardRPS == nil || *st.Rates.ForwardRPS != 700 {
			t.Fatalf("%+v", st.Rates)
		}
		measured := n.Status().Throughput
		n.Tune(func(c *Config) { c.Measuring, c.Throughput = MeasureNever, 42 })
		if st := n.Status(); st.Throughput != 42 || st.Rates.ForwardRPS != nil {
			t.Errorf("declared: %v, %+v", st.Throughput, st.Rates)
		}
		n.Tune(func(c *Config) { c.Measuring = MeasureAuto })
		if st := n.Status(); st.Throughput != measured || *st.Rates.ForwardRPS != 700 {
			t.Errorf("measured again: %v, %+v", st.Throughput, st.Rates)
		}
		n.idle(t)
	})
}
