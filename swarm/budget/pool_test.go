package budget

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// fill takes things one by one until the pool refuses, and returns how many it gave and why
// it stopped.
func fill(p *Pool, who Who) (n int, why string) {
	for {
		if err := p.Take(1, who); err != nil {
			var full *Full
			errors.As(err, &full)
			return n, full.Reason
		}
		n++
	}
}

// However many identities and prefixes an attacker has, whoever comes new finds room.
func TestShares(t *testing.T) {
	for _, c := range []struct{ peers, perNet, least int }{{1, 1, 180}, {1000, 1000, 130}, {30, 1, 1}, {4, 1, 40}} {
		p := New("things", 1000)
		for i := range c.peers {
			if _, why := fill(p, Who{fmt.Sprint("liar", i), fmt.Sprint("net", i/c.perNet)}); why == ReasonTotal {
				t.Errorf("%+v: liar %d could take all", c, i)
			}
		}
		if n, _ := fill(p, Who{"honest", "home"}); n < c.least {
			t.Errorf("%d liars, %d in a prefix: an honest newcomer gets %d, want at least %d", c.peers, c.perNet, n, c.least)
		}
	}
}

// One that is alone gets 38 %, one prefix with many peers half; the node itself gets all.
func TestAlone(t *testing.T) {
	if n, why := fill(New("things", 1000), Who{"a", "n"}); n != 382 || why != ReasonPeer {
		t.Errorf("%d things until %s", n, why)
	}
	p, sum := New("things", 1000), 0
	for i := range 1000 {
		n, _ := fill(p, Who{fmt.Sprint(i), "n"})
		sum += n
	}
	if sum != 500 {
		t.Errorf("a prefix gets %d of 1000", sum)
	}
	if n, why := fill(New("things", 10), Who{}); n != 10 || why != ReasonTotal {
		t.Errorf("%d things until %s", n, why)
	}
}

// What was given back can be had again, and leaves no trace of who had it.
func TestGive(t *testing.T) {
	p := New("things", 100)
	who := Who{"a", "n"}
	for range 3 {
		n, _ := fill(p, who)
		p.Give(int64(n), who)
	}
	if p.used != 0 || len(p.peers) != 0 || len(p.nets) != 0 {
		t.Errorf("used %d, by %v and %v", p.used, p.peers, p.nets)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New("bytes", 100)
		if err := p.Take(100, Who{}); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Second)
			p.Give(100, Who{})
		}()
		if err := p.Wait(t.Context(), 40, Who{Peer: "a"}); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var full *Full
		if err := p.Wait(ctx, 40, Who{Peer: "a"}); !errors.As(err, &full) || full.Reason != ReasonPeer {
			t.Errorf("a wait in vain: %v", err)
		}
	})
}

func TestRule(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		addr string
		want Who
	}{
		{Rule{}, "203.0.113.7", Who{"203.0.113.7", "203.0.113.0/24"}},
		{Rule{}, "::ffff:203.0.113.7", Who{"203.0.113.7", "203.0.113.0/24"}},
		{Rule{}, "2001:db8:1:203::5", Who{"2001:db8:1:203::/64", "2001:db8:1::/48"}},
		{Rule{}, "fe80::1%eth0", Who{"fe80::/64", "fe80::/48"}},
		{Rule{}, "127.0.0.5", Who{}},
		{Rule{}, "::1", Who{}},
		{Rule{Exempt: []netip.Prefix{}}, "127.0.0.5", Who{"127.0.0.5", "127.0.0.0/24"}},
	} {
		if got := c.rule.Who(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.addr, got, c.want)
		}
	}
	if got := (Rule{}).Who(netip.Addr{}); got != (Who{}) {
		t.Errorf("no address: %+v", got)
	}
}
