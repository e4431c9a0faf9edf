package p2p

import (
	"bytes"
	"testing"
)

// Addresses of peers come packed in invitations and as text in lists of names and in flags: what
// is taken is an address, and packs to the same again.
func FuzzPeerAddrs(f *testing.F) {
	const text = "/ip4/203.0.113.7/tcp/31337/p2p/12D3KooWCQSn7p6Y9axADjKBix63zVK6YKjq7eXUfX3pckXHhnhQ"
	packed, err := PackAddr(text)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add([]byte(text))
	f.Add([]byte("/dnsaddr/swarm.example.org"))
	f.Add([]byte("swarm.example.org"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := UnpackAddr(b); err == nil {
			if again, err := PackAddr(s); err != nil {
				t.Errorf("%q cannot be packed again: %v", s, err)
			} else if other, err := UnpackAddr(again); err != nil || other != s {
				t.Errorf("%q is %q after packing", s, other)
			}
		}
		s := string(bytes.ToValidUTF8(b, nil))
		if CheckPeer(s) == nil && !IsList(s) {
			if infos, err := ParsePeers([]string{s}); err != nil || len(infos) != 1 {
				t.Errorf("%q is taken and is no peer: %v", s, err)
			}
		}
	})
}
