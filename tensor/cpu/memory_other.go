//go:build !linux

package cpu

// newSlab takes memory of the Go heap: large spans of it are fresh from the system, so
// they too are committed as they are touched.
func newSlab(n int) (*slab, error) { return &slab{mem: make([]byte, n)}, nil }
