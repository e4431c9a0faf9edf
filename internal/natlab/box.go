package natlab

import (
	"net/netip"
	"sync"
	"time"
)

// Kind is how a box treats what comes from outside.
type Kind int

// The kinds of boxes, in the terms of RFC 3489.
const (
	FullCone          Kind = iota // whoever knows the outer port is let in
	AddressRestricted             // from addresses that the host has spoken to
	PortRestricted                // from addresses and ports that it has spoken to
	Symmetric                     // as that, and every destination sees another outer port
	Firewall                      // no translation; what nobody asked for is dropped without a word
)

// Box is a router with translation, or a firewall. Safe for concurrent use.
type Box struct {
	kind  Kind
	NoUDP bool // UDP is dropped

	mu      sync.Mutex // guards all below
	outer   netip.Addr // of a Firewall that of its host
	idle    time.Duration
	inside  map[flow]*mapping
	outside map[flow]*mapping // by outer end
	next    uint16
}

// flow names a mapping: who sends, and of symmetric ones to whom.
type flow struct {
	proto byte
	end   netip.AddrPort
	to    netip.AddrPort
}

type mapping struct {
	inner, outer netip.AddrPort
	to           netip.AddrPort
	spoken       map[netip.AddrPort]bool
	used         time.Time
}

// NewBox makes a box with an address towards the outside, which forgets UDP mappings that are
// idle for some time and those of TCP after an hour.
func NewBox(kind Kind, outer string, idle time.Duration) *Box {
	return &Box{kind: kind, outer: netip.MustParseAddr(outer), idle: idle, inside: map[flow]*mapping{}, outside: map[flow]*mapping{}, next: 20000}
}

// Forget drops all mappings, as a box that starts again.
func (b *Box) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.inside)
	clear(b.outside)
}

// Addr is the address towards the outside.
func (b *Box) Addr() netip.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outer
}

func (b *Box) stale(m *mapping, proto byte, now time.Time) bool {
	idle := b.idle
	if proto == tcp {
		idle = time.Hour
	}
	return now.Sub(m.used) > idle
}

// out passes a packet on to the outside; false to drop it.
func (b *Box) out(p packet, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.NoUDP && p.proto == udp {
		return false
	}
	f := flow{proto: p.proto, end: p.src()}
	if b.kind == Symmetric {
		f.to = p.dst()
	}
	m := b.inside[f]
	if m != nil && b.stale(m, p.proto, now) {
		delete(b.inside, f)
		delete(b.outside, flow{p.proto, m.outer, netip.AddrPort{}})
		m = nil
	}
	if m == nil {
		m = &mapping{inner: p.src(), outer: b.port(p), to: f.to, spoken: map[netip.AddrPort]bool{}}
		b.inside[f] = m
		b.outside[flow{p.proto, m.outer, netip.AddrPort{}}] = m
	}
	m.used = now
	m.spoken[p.dst()] = true
	m.spoken[netip.AddrPortFrom(p.dst().Addr(), 0)] = true
	if b.kind != Firewall {
		p.set(false, m.outer)
	}
	return true
}

// port chooses the outer end: the same port where that is free, as most routers do, and any for
// a symmetric one.
func (b *Box) port(p packet) netip.AddrPort {
	if b.kind == Firewall {
		return p.src()
	}
	if e := netip.AddrPortFrom(b.outer, p.src().Port()); b.kind != Symmetric && b.outside[flow{p.proto, e, netip.AddrPort{}}] == nil {
		return e
	}
	for {
		b.next += 7
		if b.next < 20000 {
			b.next = 20000
		}
		if e := netip.AddrPortFrom(b.outer, b.next); b.outside[flow{p.proto, e, netip.AddrPort{}}] == nil {
			return e
		}
	}
}

// in lets a packet from outside in; false to drop it.
func (b *Box) in(p packet, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.NoUDP && p.proto == udp {
		return false
	}
	m := b.outside[flow{p.proto, p.dst(), netip.AddrPort{}}]
	if m == nil || b.stale(m, p.proto, now) {
		return false
	}
	switch b.kind {
	case FullCone:
	case AddressRestricted:
		if !m.spoken[netip.AddrPortFrom(p.src().Addr(), 0)] {
			return false
		}
	case Symmetric:
		if p.src() != m.to {
			return false
		}
	default:
		if !m.spoken[p.src()] {
			return false
		}
	}
	m.used = now
	if b.kind != Firewall {
		p.set(true, m.inner)
	}
	return true
}
