package swarm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Adapter names a LoRA adapter that a server holds for all blocks of its span. Users ask
// for the name; the digest, over everything that alters results, keeps apart what only
// shares a name.
type Adapter struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// minDigest is how many characters of a digest are enough to name it.
const minDigest = 12

// ParseAdapter reads NAME, which stands for any adapter of that name, or NAME@DIGEST with the
// first 12 hex digits of a digest or more, which stands for one.
func ParseAdapter(text string) Adapter {
	if i := strings.LastIndexByte(text, '@'); i > 0 {
		digest := strings.ToLower(text[i+1:])
		if len(digest) >= minDigest && strings.Trim(digest, "0123456789abcdef") == "" {
			return Adapter{text[:i], digest}
		}
	}
	return Adapter{Name: text}
}

// String is the text that ParseAdapter reads.
func (a Adapter) String() string {
	if a.Digest == "" {
		return a.Name
	}
	return a.Name + "@" + a.Digest
}

// Is tells whether an adapter is what was asked for: of the name, and of the digest as far
// as that was given.
func (a Adapter) Is(asked Adapter) bool {
	return a.Name == asked.Name && strings.HasPrefix(a.Digest, asked.Digest)
}

// MaxAdapters bounds those of one server: its record names them all.
const MaxAdapters = 64

// Validate refuses what no honest server announces.
func (a Adapter) Validate() error {
	switch {
	case a.Name == "" || len(a.Name) > maxShortText || strings.ContainsFunc(a.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("adapter name %.*q, want 1 to %d bytes without control characters", maxShortText, a.Name, maxShortText)
	case a.Digest == "" || len(a.Digest) > maxShortText:
		return fmt.Errorf("adapter digest of %d bytes, want 1 to %d", len(a.Digest), maxShortText)
	}
	return nil
}

// validAdapters checks those of a record.
func validAdapters(list []Adapter) error {
	if len(list) > MaxAdapters {
		return fmt.Errorf("%d adapters, at most %d", len(list), MaxAdapters)
	}
	for i, a := range list {
		if err := a.Validate(); err != nil {
			return err
		}
		if slices.ContainsFunc(list[:i], func(b Adapter) bool { return a.Name == b.Name }) {
			return fmt.Errorf("two adapters named %q", a.Name)
		}
	}
	return nil
}

// Holding keeps the servers that hold an adapter, as View.Servers are sorted.
func (v View) Holding(a Adapter) View {
	all := v.Servers
	v.Servers = nil
	for i := range all {
		if slices.Contains(all[i].Adapters, a) {
			v.Servers = append(v.Servers, all[i])
		}
	}
	return v
}

// Adapters lists what online servers announce, one of a name, sorted by name: where
// different adapters share a name, the one whose holders lack the fewest blocks, then the
// one with the most holders, then the smaller digest, so that all nodes choose alike. The names
// are those of strangers: they are for an operator to read and no offer to users.
func (v View) Adapters() []Adapter {
	return slices.CompactFunc(v.announced(), func(a, b Adapter) bool { return a.Name == b.Name })
}

// Adapter finds what an asked one stands for now: of those that servers announce the first
// that it is, in the order of Adapters.
func (v View) Adapter(asked Adapter) (Adapter, bool) {
	all := v.announced()
	if i := slices.IndexFunc(all, func(a Adapter) bool { return a.Is(asked) }); i >= 0 {
		return all[i], true
	}
	return Adapter{}, false
}

// announced lists the adapters of online servers in the order that Adapters describes.
func (v View) announced() []Adapter {
	// In one pass: strangers announce what they like, each many adapters.
	spans := map[Adapter][]Span{}
	for i := range v.Servers {
		if r := &v.Servers[i]; r.State == Online {
			for _, a := range r.Adapters {
				spans[a] = append(spans[a], r.Span)
			}
		}
	}
	lacking := map[Adapter]int{}
	list := make([]Adapter, 0, len(spans))
	for a, held := range spans {
		list = append(list, a)
		lacking[a] = v.Manifest.Blocks - covered(held)
	}
	slices.SortFunc(list, func(a, b Adapter) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(lacking[a], lacking[b]),
			cmp.Compare(len(spans[b]), len(spans[a])), cmp.Compare(a.Digest, b.Digest))
	})
	return list
}

// covered counts the blocks that any of the spans has; it sorts them.
func covered(spans []Span) int {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	n, end := 0, 0
	for _, s := range spans {
		n += max(0, s.End-max(s.Start, end))
		end = max(end, s.End)
	}
	return n
}
