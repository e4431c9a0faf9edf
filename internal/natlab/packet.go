package natlab

import (
	"encoding/binary"
	"net/netip"
)

// Protocols that are carried; all others are dropped.
const (
	tcp = 6
	udp = 17
)

// packet is an IP packet of TCP or UDP.
type packet struct {
	b     []byte
	proto byte
	at    int // where the ports are
}

// parse reads a packet; false for one that is not carried.
func parse(b []byte) (packet, bool) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		head := int(b[0]&15) * 4
		if frag := binary.BigEndian.Uint16(b[6:]) & 0x3fff; frag != 0 || len(b) < head+8 {
			return packet{}, false
		}
		return packet{b, b[9], head}, b[9] == tcp && len(b) >= head+20 || b[9] == udp
	case len(b) >= 48 && b[0]>>4 == 6:
		return packet{b, b[6], 40}, b[6] == tcp && len(b) >= 60 || b[6] == udp
	}
	return packet{}, false
}

func (p packet) six() bool { return p.b[0]>>4 == 6 }

// field is where the address and port of an end lie.
func (p packet) field(dst bool) (ip, port []byte) {
	first, n := 12, 4
	if p.six() {
		first, n = 8, 16
	}
	port = p.b[p.at : p.at+2]
	if dst {
		first += n
		port = p.b[p.at+2 : p.at+4]
	}
	return p.b[first : first+n], port
}

func (p packet) end(dst bool) netip.AddrPort {
	ip, port := p.field(dst)
	a, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(port))
}

func (p packet) src() netip.AddrPort { return p.end(false) }
func (p packet) dst() netip.AddrPort { return p.end(true) }

// set writes another address and port of an end, and mends the checksums.
func (p packet) set(dst bool, to netip.AddrPort) {
	ip, port := p.field(dst)
	var newPort [2]byte
	binary.BigEndian.PutUint16(newPort[:], to.Port())
	newIP := to.Addr().AsSlice()
	sum := p.b[p.at+6:] // of UDP
	if p.proto == tcp {
		sum = p.b[p.at+16:]
	}
	if p.proto == tcp || sum[0] != 0 || sum[1] != 0 { // UDP over IPv4 may have none
		mend(sum, ip, newIP)
		mend(sum, port, newPort[:])
	}
	if !p.six() {
		mend(p.b[10:], ip, newIP)
	}
	copy(ip, newIP)
	copy(port, newPort[:])
}

// mend corrects a checksum for words that change (RFC 1624).
func mend(sum, before, after []byte) {
	s := uint32(^binary.BigEndian.Uint16(sum))
	for i := 0; i < len(before); i += 2 {
		s += uint32(^binary.BigEndian.Uint16(before[i:])) + uint32(binary.BigEndian.Uint16(after[i:]))
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	binary.BigEndian.PutUint16(sum, ^uint16(s))
}
