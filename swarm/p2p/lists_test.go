package p2p

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

func list(t *testing.T, items ...string) List {
	t.Helper()
	l, err := ParseList(items)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Who is denied is denied wherever it is, and at a place that is denied whoever it is; where anybody
// is allowed, nobody else is.
func TestPolicy(t *testing.T) {
	const a, b, relay = "12D3KooWBo3UEeuHPj6XLihVtqRPpyoDaqPWxuHFhhTVmiMkQuGm", "12D3KooWCvwdtZZk66xXVGmNUcLsRyvrY64Lvt8rk8dw3DiVaqqJ", "12D3KooWLZfr1S6x4TmvnK35M1r5Rc2EUCFEdAKBgQrJeriP1UAN"
	direct := func(ip string) string { return "/ip4/" + ip + "/tcp/1" }
	through := "/ip4/203.0.113.9/tcp/1/p2p/" + relay + "/p2p-circuit"
	for _, c := range []struct {
		name        string
		allow, deny []string
		peer, addr  string
		want, call  bool // whether it may, and whether as a caller it gets as far as to say who it is
	}{
		{"no lists", nil, nil, a, direct("203.0.113.1"), true, true},
		{"denied by id", nil, []string{a}, a, direct("203.0.113.1"), false, true},
		{"another is", nil, []string{a}, b, direct("203.0.113.1"), true, true},
		{"denied by address", nil, []string{"203.0.113.1"}, a, direct("203.0.113.1"), false, false},
		{"denied by prefix", nil, []string{"203.0.113.0/24"}, a, direct("203.0.113.1"), false, false},
		{"elsewhere", nil, []string{"203.0.113.0/24"}, a, direct("203.0.114.1"), true, true},
		{"an IPv4 address in IPv6", nil, []string{"::ffff:203.0.113.1"}, a, direct("203.0.113.1"), false, false},
		{"allowed by id", []string{a}, nil, a, direct("203.0.113.1"), true, true},
		{"not allowed", []string{a}, nil, b, direct("203.0.113.1"), false, true},
		{"allowed by prefix", []string{"203.0.113.0/24"}, nil, b, direct("203.0.113.1"), true, true},
		{"outside it", []string{"203.0.113.0/24"}, nil, b, direct("198.51.100.1"), false, false},
		{"allowed and denied", []string{"203.0.113.0/24"}, []string{a}, a, direct("203.0.113.1"), false, true},
		{"through a relay", nil, nil, a, through, true, true},
		{"through one that is denied", nil, []string{relay}, a, through, false, true},
		{"through one at an address that is", nil, []string{"203.0.113.0/24"}, a, through, false, false},
		{"a peer that is, through a relay", nil, []string{a}, a, through, false, true},
		{"allowed by place only, through a relay", []string{"203.0.113.0/24"}, nil, a, through, false, true},
		{"allowed, through one that is not", []string{a}, nil, a, through, false, true},
		{"both allowed", []string{a, relay}, nil, a, through, true, true},
	} {
		l := policy{list(t, c.allow...), list(t, c.deny...)}
		id, err := peer.Decode(c.peer)
		if err != nil {
			t.Fatal(err)
		}
		at := ma.StringCast(c.addr)
		if got := l.address(id, at); got != c.want {
			t.Errorf("%s: permitted: %t, want %t", c.name, got, c.want)
		}
		if got := l.stranger(ipOf(at)); got != c.call {
			t.Errorf("%s: may say who it is: %t, want %t", c.name, got, c.call)
		}
	}
	if !(policy{}).permits("", netip.Addr{}) {
		t.Error("without lists somebody unknown is refused")
	}
	for _, bad := range []string{"", "10.0.0.0/33", "example.org", "12D3", "::ffff:10.0.0.0/104", "fe80::1%eth0"} {
		if _, err := ParseList([]string{a, bad}); err == nil || !strings.Contains(err.Error(), "neither a peer id nor") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A peer that is denied connects in neither direction; others go on.
func TestDeniedPeers(t *testing.T) {
	a, b := newHost(t, Config{}), newHost(t, Config{})
	for name, h := range map[string]*Host{
		"denied":            newHost(t, Config{Deny: list(t, string(a.ID()))}),
		"not allowed":       newHost(t, Config{Allow: list(t, string(b.ID()))}),
		"denied over QUIC":  newHost(t, Config{HostMaddrs: []string{loopQUIC}, Deny: list(t, string(a.ID()))}),
		"allowed over QUIC": newHost(t, Config{HostMaddrs: []string{loopQUIC}, Allow: list(t, string(b.ID()))}),
	} {
		for _, c := range []struct {
			other *Host
			want  bool
		}{{a, false}, {b, true}} {
			for _, way := range []struct{ from, to *Host }{{h, c.other}, {c.other, h}} {
				way.from.AddAddrs(way.to.ID(), way.to.ListenAddrs())
				_, err := way.from.Ping(t.Context(), way.to.ID())
				if got := err == nil; got != c.want {
					t.Errorf("%s: from %s to %s: %v", name, way.from.ID().Short(), way.to.ID().Short(), err)
				}
			}
			if got := h.Permits(c.other.ID(), c.other.ListenAddrs()); got != c.want {
				t.Errorf("%s: permits %s: %t", name, c.other.ID().Short(), got)
			}
		}
	}
}
