package budget

import (
	"net/netip"
	"slices"
)

// Widths of prefixes. An IPv4 /24 is the least that is routed by itself, and what an attacker
// rents at once; an IPv6 /48 is what a site or a hosting customer gets for the asking.
const (
	Bits4 = 24
	Bits6 = 48
	// near6 is what one machine can have of IPv6 without asking anybody.
	near6 = 64
)

// Loopback is this machine. A swarm on one machine has every peer there, so that prefixes
// say nothing; each peer still has its own share.
var Loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// Rule says which addresses belong together.
type Rule struct {
	// Exempt prefixes are nobody's: nil for Loopback, empty for none.
	Exempt []netip.Prefix
}

func (r Rule) exempt(a netip.Addr) bool {
	all := r.Exempt
	if all == nil {
		all = Loopback
	}
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Net names the prefix of an address; "" if it is exempt or no address.
func (r Rule) Net(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	bits := Bits4
	if a.Is6() {
		bits = Bits6
	}
	if p, err := a.Prefix(bits); err == nil && a.IsValid() && !r.exempt(a) {
		return p.String()
	}
	return ""
}

// Who is an address as a holder of its own: for what comes before an identity is known.
func (r Rule) Who(a netip.Addr) Who {
	a = a.Unmap().WithZone("")
	who := Who{Net: r.Net(a)}
	if who.Net == "" {
		return who
	}
	who.Peer = a.String()
	if p, err := a.Prefix(near6); a.Is6() && err == nil {
		who.Peer = p.String()
	}
	return who
}
