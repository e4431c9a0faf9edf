package swarm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// PeerID names a node: the base58 text of a libp2p peer id, derived from its key.
type PeerID string

// Short is the id as pages and logs show it: the last six characters.
func (p PeerID) Short() string {
	if len(p) <= 6 {
		return string(p)
	}
	return "…" + string(p[len(p)-6:])
}

// Class is a numerics class: servers of one class give the same bits.
type Class struct {
	ConfigHash string `json:"config_hash"` // of the fields that alter maths
	DType      string `json:"dtype"`       // "f32", "bf16", "f16": of the float weights
	Quant      string `json:"quant"`       // "none" or the block format, such as "q4_1"
	KVDType    string `json:"kv_dtype"`    // "f32" or "bf16"
	Arithmetic string `json:"arithmetic"`  // how the kind of device rounds, such as "cpu1"
}

// String is the class as logs show it, without the hash of the configuration.
func (c Class) String() string {
	return c.DType + "/" + c.Quant + "/kv-" + c.KVDType + "/" + c.Arithmetic
}

// Manifest defines a model as a swarm serves it. Two servers complete each other only if
// their manifests are equal.
type Manifest struct {
	Name     string `json:"name"`     // as users ask for it
	Revision string `json:"revision"` // "" for a local path
	Blocks   int    `json:"blocks"`
	Hidden   int    `json:"hidden"` // columns of the rows that travel
	Class    Class  `json:"class"`
}

// UID names a manifest: the first 32 hex digits of the SHA-256 of its canonical JSON.
// Coverage, balance and routing are computed per UID.
type UID string

// UID computes the manifest's name.
func (m Manifest) UID() UID {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and ints always marshal
	}
	h := sha256.Sum256(b)
	return UID(hex.EncodeToString(h[:16]))
}

// Limits of a manifest read from strangers.
const (
	MaxBlocks  = 4096
	MaxHidden  = 1 << 17
	maxNameLen = 256
)

// Validate refuses manifests that no honest server writes.
func (m Manifest) Validate() error {
	switch {
	case m.Name == "" || len(m.Name) > maxNameLen:
		return fmt.Errorf("manifest: name of %d bytes, want 1 to %d", len(m.Name), maxNameLen)
	case strings.ContainsFunc(m.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("manifest: name %q holds control characters", m.Name)
	case len(m.Revision) > maxNameLen:
		return fmt.Errorf("manifest: revision of %d bytes, at most %d", len(m.Revision), maxNameLen)
	case m.Blocks < 1 || m.Blocks > MaxBlocks:
		return fmt.Errorf("manifest: %d blocks, want 1 to %d", m.Blocks, MaxBlocks)
	case m.Hidden < 1 || m.Hidden > MaxHidden:
		return fmt.Errorf("manifest: hidden size %d, want 1 to %d", m.Hidden, MaxHidden)
	}
	for _, s := range []string{m.Class.ConfigHash, m.Class.DType, m.Class.Quant, m.Class.KVDType, m.Class.Arithmetic} {
		if s == "" || len(s) > maxNameLen {
			return fmt.Errorf("manifest: class %+v has an empty or overlong field", m.Class)
		}
	}
	return nil
}

// Span is a run of blocks: Start up to but not including End.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Len is the number of blocks.
func (s Span) Len() int { return s.End - s.Start }

// Holds tells whether the block lies in the span.
func (s Span) Holds(block int) bool { return s.Start <= block && block < s.End }

// Contains tells whether all of o lies in the span.
func (s Span) Contains(o Span) bool { return s.Start <= o.Start && o.End <= s.End }

// String is "start:end", as on the command line.
func (s Span) String() string { return fmt.Sprintf("%d:%d", s.Start, s.End) }

// ParseSpan reads "start:end" and checks 0 <= start < end.
func ParseSpan(text string) (Span, error) {
	from, to, _ := strings.Cut(text, ":")
	start, err1 := strconv.Atoi(from)
	end, err2 := strconv.Atoi(to)
	if err1 != nil || err2 != nil || start < 0 || start >= end {
		return Span{}, fmt.Errorf("blocks %q: want START:END with 0 <= START < END, such as 0:10", text)
	}
	return Span{start, end}, nil
}
