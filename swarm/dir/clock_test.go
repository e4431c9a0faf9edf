package dir

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"whorl/swarm"
	"whorl/swarm/p2p"
)

// count is the value of a counter.
func count(c prometheus.Counter) float64 {
	var m dto.Metric
	c.Write(&m)
	return m.GetCounter().GetValue()
}

// A record lives by the clock; its owner must renew it.
func TestExpiry(t *testing.T) {
	var ahead atomic.Int64
	cfg := quick(nil)
	cfg.Clock = func() time.Time { return epoch.Add(time.Duration(ahead.Load())) }
	n := start(t, newHost(t, p2p.Config{}), cfg)
	n.announce(t, 0, 4, swarm.Online)
	n.until(t, "announced", servers(1))
	ahead.Store(int64(cfg.Expiration - time.Second))
	n.announce(t, 0, 4, swarm.Online)
	ahead.Store(int64(2*cfg.Expiration - 2*time.Second))
	n.until(t, "renewed", servers(1))
	ahead.Store(int64(2*cfg.Expiration - time.Second))
	n.until(t, "expired", servers(0))
}

// A clock set back does not silence a node: it counts on from what the swarm remembers.
func TestClockSetBack(t *testing.T) {
	boot := start(t, newHost(t, p2p.Config{}), quick(nil))
	path := filepath.Join(t.TempDir(), "identity")
	a := start(t, newHost(t, p2p.Config{IdentityPath: path}), quick(boot.host.Addrs()))
	a.announce(t, 0, 2, swarm.Online)
	boot.until(t, "a", servers(1))
	a.stop()
	cfg := quick(boot.host.Addrs())
	cfg.Clock = func() time.Time { return time.Now().Add(-20 * time.Second) }
	a = start(t, newHost(t, p2p.Config{IdentityPath: path}), cfg)
	a.until(t, "joined", func(swarm.View) bool { return true })
	a.announce(t, 0, 4, swarm.Online)
	boot.until(t, "the new record", whole)
}

// A node whose clock is far off is told by how much, on both sides.
func TestClocks(t *testing.T) {
	reg := prometheus.NewRegistry()
	cfg := quick(nil)
	cfg.Registerer = reg
	cfg.Clock = func() time.Time { return epoch } // both stand still: an exchange may take seconds
	boot := start(t, newHost(t, p2p.Config{}), cfg)
	for _, c := range []struct {
		off                time.Duration
		ours, boot, reason string
	}{
		{time.Hour, "1h0m0s ahead of", "ahead of ours", "clock"},
		{-time.Hour, "1h0m0s behind", "this node's clock is 1h0m0s ahead", "expired"},
	} {
		cfg := quick(boot.host.Addrs())
		cfg.Clock = func() time.Time { return epoch.Add(c.off) }
		n := start(t, newHost(t, p2p.Config{}), cfg)
		n.announce(t, 0, 4, swarm.Online)
		n.log.wait(t, c.ours)
		boot.log.wait(t, c.boot)
		// Its record comes after its clock.
		for late := time.Now().Add(patience); count(boot.metrics.refused.WithLabelValues(c.reason)) == 0; <-time.After(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("refusals for %s are not counted", c.reason)
			}
		}
		n.stop()
	}
	if v, err := boot.View(t.Context(), model.UID()); err != nil || len(v.Servers) != 0 {
		t.Errorf("records of the wrong time are seen: %+v", v)
	}
	if all, err := reg.Gather(); err != nil || len(all) == 0 || boot.Refused() == 0 {
		t.Errorf("%d metrics, %d refused, %v", len(all), boot.Refused(), err)
	}
}

// Clocks that differ by so little that nothing is refused yet are told when a node joins.
func TestClocksThatDriftApart(t *testing.T) {
	cfg := quick(nil)
	cfg.Clock = func() time.Time { return epoch }
	boot := start(t, newHost(t, p2p.Config{}), cfg)
	for off, want := range map[time.Duration]string{11 * time.Second: "11s ahead of", -12 * time.Second: "12s behind"} {
		cfg := quick(boot.host.Addrs())
		cfg.Clock = func() time.Time { return epoch.Add(off) }
		n := start(t, newHost(t, p2p.Config{}), cfg)
		n.announce(t, 0, 4, swarm.Online)
		n.log.wait(t, want)
		n.log.wait(t, "set them before records are refused")
		boot.until(t, "its record is taken", servers(1))
		n.stop()
		boot.until(t, "it is gone", servers(0))
	}
	cfg = quick(boot.host.Addrs())
	cfg.Clock = func() time.Time { return epoch.Add(9 * time.Second) }
	n := start(t, newHost(t, p2p.Config{}), cfg)
	n.announce(t, 0, 4, swarm.Online)
	boot.until(t, "its record is taken", servers(1))
	if strings.Contains(n.log.String(), "clocks") {
		t.Errorf("a difference of 9 s is told:\n%s", n.log)
	}
}
