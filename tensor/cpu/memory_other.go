//go:build !linux

package cpu

// newSlab takes memory of the Go heap: large spans of it are fresh from the system, so
// they too are committed as they are touched.
func newSlab(n int) (*slab, error) { return &slab{mem: make([]byte, n)}, nil }

// release does nothing: memory of Go's heap goes back as a whole or not at all.
func (s *slab) release(from, to int) {}
