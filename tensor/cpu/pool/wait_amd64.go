//go:build amd64 && !purego

package pool

func pause()

// Fetch asks for whole cache lines into the second-level cache and does not wait for them.
// The address need not be mapped.
func Fetch(at uintptr, bytes int)
