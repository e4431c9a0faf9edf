package p2p

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	ma "github.com/multiformats/go-multiaddr"
	madns "github.com/multiformats/go-multiaddr-dns"
)

// maxNamed is how many addresses one name may stand for, nameDepth how many lists deep.
const (
	maxNamed  = 32
	nameDepth = 4
)

// hostName is a name with a dot, such as swarm.example.org.
var hostName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?$`)

// IsList tells whether an address is a name whose TXT records list peers: a bare host name or
// /dnsaddr/NAME, with or without /p2p/ID, which keeps the entries of that peer.
func IsList(s string) bool {
	s = strings.TrimSpace(s)
	return hostName.MatchString(s) || strings.HasPrefix(s, "/dnsaddr/")
}

// CheckPeer refuses what is neither the address of a peer nor the name of a list.
func CheckPeer(s string) error {
	if !IsList(s) {
		_, err := ParsePeers([]string{s})
		return err
	}
	if s = strings.TrimSpace(s); !hostName.MatchString(s) {
		if _, err := ma.NewMultiaddr(s); err != nil {
			return fmt.Errorf("peer list %q: %w: want a host name, /dnsaddr/NAME or /dnsaddr/NAME/p2p/ID", s, err)
		}
	}
	return nil
}

// Resolve replaces the names of lists among addresses of peers by what they list now. Where a
// list cannot be had the others count, and the error says why; addresses and names of hosts in
// them stay as they are.
func (h *Host) Resolve(ctx context.Context, addrs []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, h.dialTimeout)
	defer cancel()
	var out []string
	var errs []error
	for _, s := range addrs {
		if !IsList(s) {
			out = append(out, s)
			continue
		}
		listed, err := h.list(ctx, strings.TrimSpace(s))
		if err != nil {
			errs = append(errs, err)
		}
		for _, a := range listed {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out, errors.Join(errs...)
}

// list are the addresses that a name stands for.
func (h *Host) list(ctx context.Context, name string) ([]string, error) {
	if hostName.MatchString(name) {
		name = "/dnsaddr/" + strings.TrimSuffix(name, ".")
	}
	a, err := ma.NewMultiaddr(name)
	if err != nil {
		return nil, fmt.Errorf("peer list %q: %w", name, err)
	}
	todo, seen := []ma.Multiaddr{a}, map[string]bool{}
	var out []string
	for range nameDepth {
		var next []ma.Multiaddr
		for _, a := range todo {
			if seen[a.String()] {
				continue
			}
			seen[a.String()] = true
			got, err := h.names.Resolve(ctx, a)
			if err != nil {
				var dns *net.DNSError
				if errors.As(err, &dns) && dns.IsNotFound {
					err = errors.New("no such name, or it has no TXT record")
				}
				return out, fmt.Errorf("peer list %s: %w: its TXT records at _dnsaddr.NAME must read dnsaddr=/ip4/HOST/tcp/PORT/p2p/ID", name, err)
			}
			for _, b := range got {
				switch text := b.String(); {
				case strings.HasPrefix(text, "/dnsaddr/"):
					next = append(next, b)
				case len(out) < maxNamed && CheckPeer(text) == nil && !slices.Contains(out, text):
					out = append(out, text)
				}
			}
		}
		if todo = next; len(todo) > maxNamed {
			todo = todo[:maxNamed]
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("peer list %s names no peer: its TXT records at _dnsaddr.NAME must read dnsaddr=/ip4/HOST/tcp/PORT/p2p/ID", name)
	}
	return out, nil
}

// resolver asks the system's name servers, or those of a test.
func resolver(cfg Config) *madns.Resolver {
	if cfg.names != nil {
		return cfg.names
	}
	return madns.DefaultResolver
}
