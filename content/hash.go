package content

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Hash is a SHA-256. The zero value names nothing.
type Hash [sha256.Size]byte

// String is 64 lower-case hex digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Short is how people tell hashes apart in a log: the first twelve digits.
func (h Hash) Short() string { return h.String()[:12] }

// IsZero tells the hash that names nothing.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText writes hex, and nothing for the zero value.
func (h Hash) MarshalText() ([]byte, error) {
	if h.IsZero() {
		return nil, nil
	}
	return hex.AppendEncode(nil, h[:]), nil
}

// UnmarshalText reads what MarshalText writes, and no other spelling of it.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*h = Hash{}
		return nil
	}
	got, err := Parse(string(b))
	if err == nil {
		*h = got
	}
	return err
}

// Parse reads 64 lower-case hex digits.
func Parse(s string) (Hash, error) {
	var h Hash
	if len(s) != 2*len(h) {
		return h, fmt.Errorf("a hash of %d characters, want %d hex digits", len(s), 2*len(h))
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return Hash{}, fmt.Errorf("hash %q: %w", s, err)
	}
	if h.String() != s {
		return Hash{}, fmt.Errorf("hash %q: want lower-case digits", s)
	}
	return h, nil
}

// Sum is the SHA-256 of bytes in no domain, as other programs compute it.
func Sum(b []byte) Hash { return sha256.Sum256(b) }

// domainSize is one block of SHA-256: what follows it is hashed as if nothing went before.
const domainSize = sha256.BlockSize

// Domain keeps hashes of one use apart from those of all others: its name, padded with
// zeros to 64 bytes, goes before what is hashed.
type Domain [domainSize]byte

// NewDomain makes a domain; the name has 1 to 63 bytes, none of them zero.
func NewDomain(name string) Domain {
	var d Domain
	if name == "" || len(name) >= domainSize {
		panic("content: a domain's name has 1 to 63 bytes")
	}
	copy(d[:], name)
	return d
}

// Of hashes parts in a domain, each behind its length as 8 little-endian bytes, so that no
// two lists of parts look alike.
func (d *Domain) Of(parts ...[]byte) Hash {
	sum := sha256.New()
	sum.Write(d[:]) // a hash never fails
	var n [8]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		sum.Write(n[:])
		sum.Write(p)
	}
	var h Hash
	sum.Sum(h[:0])
	return h
}
