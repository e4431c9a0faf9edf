package swarm

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"whorl/content"
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
	Arithmetic string `json:"arithmetic"`  // how the kind of device rounds, such as "exact1"
}

// String is the class as logs show it, without the hash of the configuration.
func (c Class) String() string {
	return c.DType + "/" + c.Quant + "/kv-" + c.KVDType + "/" + c.Arithmetic
}

// Manifest defines a model as a swarm serves it, to the last bit of its weights. Two servers
// complete each other only if their manifests are equal. Nobody changes one that was made.
type Manifest struct {
	Name     string `json:"name"`     // as users ask for it
	Revision string `json:"revision"` // "" for a local path
	Blocks   int    `json:"blocks"`
	Hidden   int    `json:"hidden"` // columns of the rows that travel
	Class    Class  `json:"class"`
	// Roots name the weights of each block as the source stores them, Head those outside of
	// blocks. Both are there or both are missing: a run that nobody else joins pins nothing.
	Roots Roots        `json:"roots,omitempty"`
	Head  content.Hash `json:"head,omitzero"`
	// Tokenizer names what makes text into ids and back, chat templates included; zero for
	// models without one.
	Tokenizer content.Hash `json:"tokenizer,omitzero"`
	// Share says that servers may pass the files on to others.
	Share bool `json:"share,omitempty"`
	// Files names the files that all of this was read from, configuration and tokenizer among
	// them: the tree of a bundle's text (swarm/share). Zero where nobody wrote it down.
	Files content.Hash `json:"files,omitzero"`
	// Namespace sets models apart that are otherwise the same: servers of two namespaces do not complete
	// each other. "" for most.
	Namespace string `json:"namespace,omitempty"`
}

// Roots are hashes in a row. As text they are one string of hex digits.
type Roots []content.Hash

// MarshalText writes all digits.
func (r Roots) MarshalText() ([]byte, error) {
	b := make([]byte, 0, len(r)*2*len(content.Hash{}))
	for _, h := range r {
		b = hex.AppendEncode(b, h[:])
	}
	return b, nil
}

// UnmarshalText reads what MarshalText writes.
func (r *Roots) UnmarshalText(b []byte) error {
	const size = 2 * len(content.Hash{})
	if len(b)%size != 0 {
		return fmt.Errorf("roots of %d hex digits, want %d for each block", len(b), size)
	}
	*r = make(Roots, len(b)/size)
	for i := range *r {
		if _, err := hex.Decode((*r)[i][:], b[i*size:][:size]); err != nil {
			return fmt.Errorf("root of block %d: %w", i, err)
		}
	}
	return nil
}

// UID names a manifest: the SHA-256 of its canonical form, in hex. Whoever announces a UID
// claims all that the manifest says. Coverage, balance and routing are computed per UID.
type UID string

// Hash is the UID as bytes; false if it is none.
func (u UID) Hash() (content.Hash, bool) {
	h, err := content.Parse(string(u))
	return h, err == nil
}

// ManifestVersion is that of the canonical form.
const ManifestVersion = 2

// canonical is a manifest as it is hashed and sent: its version first, then the members in
// their order, without spaces.
type canonical struct {
	Version int `json:"manifest"`
	Manifest
}

// Encode gives the canonical form: JSON, of which there is one for each manifest.
func (m Manifest) Encode() []byte {
	b, err := json.Marshal(canonical{ManifestVersion, m})
	if err != nil {
		panic(err) // strings, ints and hashes always marshal
	}
	return b
}

// UID computes the manifest's name.
func (m Manifest) UID() UID { return UID(content.Sum(m.Encode()).String()) }

// Shared tells whether nodes may fetch the model's files from each other.
func (m Manifest) Shared() bool { return m.Share && !m.Files.IsZero() }

// Pinned tells whether the manifest names the model's weights.
func (m Manifest) Pinned() bool { return len(m.Roots) > 0 }

// DecodeManifest reads the canonical form of a manifest that a stranger sent, and no other:
// what is valid JSON but would be written in another way is refused, and so is a manifest
// with members that this version does not know or without the names of all weights.
func DecodeManifest(b []byte) (Manifest, error) {
	if len(b) > MaxManifestBytes {
		return Manifest{}, fmt.Errorf("manifest: %d bytes, at most %d", len(b), MaxManifestBytes)
	}
	var first struct {
		Version int `json:"manifest"`
	}
	if err := json.Unmarshal(b, &first); err != nil {
		return Manifest{}, fmt.Errorf("manifest: %w", err)
	}
	if first.Version != ManifestVersion {
		return Manifest{}, fmt.Errorf("manifest: version %d, this node reads %d: update the older of the two", first.Version, ManifestVersion)
	}
	var c canonical
	if err := json.Unmarshal(b, &c); err != nil {
		return Manifest{}, fmt.Errorf("manifest: %w", err)
	}
	m := c.Manifest
	if err := m.Validate(); err != nil {
		return Manifest{}, err
	}
	switch {
	case !m.Pinned():
		return Manifest{}, fmt.Errorf("manifest of %q: it names no weights", m.Name)
	case !bytes.Equal(m.Encode(), b):
		return Manifest{}, fmt.Errorf("manifest of %q: not in its canonical form, or with members that this version does not know", m.Name)
	}
	return m, nil
}

// Limits of a manifest read from strangers.
const (
	MaxManifestBytes = 1 << 20
	MaxBlocks        = 4096
	MaxHidden        = 1 << 17
	maxNameLen       = 256
	maxNamespace     = 64
)

// Validate refuses manifests that no honest server writes.
func (m Manifest) Validate() error {
	switch {
	case m.Name == "" || len(m.Name) > maxNameLen:
		return fmt.Errorf("manifest: name of %d bytes, want 1 to %d", len(m.Name), maxNameLen)
	case !utf8.ValidString(m.Name + m.Revision):
		return fmt.Errorf("manifest: name %q or revision %q is no UTF-8", m.Name, m.Revision)
	case strings.ContainsFunc(m.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("manifest: name %q holds control characters", m.Name)
	case len(m.Revision) > maxNameLen:
		return fmt.Errorf("manifest: revision of %d bytes, at most %d", len(m.Revision), maxNameLen)
	case CheckNamespace(m.Namespace) != nil:
		return fmt.Errorf("manifest: %w", CheckNamespace(m.Namespace))
	case m.Blocks < 1 || m.Blocks > MaxBlocks:
		return fmt.Errorf("manifest: %d blocks, want 1 to %d", m.Blocks, MaxBlocks)
	case m.Hidden < 1 || m.Hidden > MaxHidden:
		return fmt.Errorf("manifest: hidden size %d, want 1 to %d", m.Hidden, MaxHidden)
	case m.Pinned() && len(m.Roots) != m.Blocks:
		return fmt.Errorf("manifest: roots of %d blocks of %d", len(m.Roots), m.Blocks)
	case m.Pinned() == m.Head.IsZero():
		return fmt.Errorf("manifest: it names the weights of %d blocks, and the head %q", len(m.Roots), m.Head)
	}
	for _, s := range []string{m.Class.ConfigHash, m.Class.DType, m.Class.Quant, m.Class.KVDType, m.Class.Arithmetic} {
		if s == "" || len(s) > maxNameLen || !utf8.ValidString(s) {
			return fmt.Errorf("manifest: class %+v has a field that is empty, overlong or no UTF-8", m.Class)
		}
	}
	return nil
}

// CheckNamespace refuses what is no namespace of models. "" is that of those who name none.
func CheckNamespace(s string) error {
	switch {
	case len(s) > maxNamespace:
		return fmt.Errorf("namespace of %d bytes, want at most %d", len(s), maxNamespace)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r == '.' || unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return fmt.Errorf("namespace %q: want a word without dots", s)
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
