//go:build amd64 && !purego

package cpu

func pause()

// fetch asks for whole cache lines into the second-level cache and does not wait for them.
// The address need not be mapped.
func fetch(at uintptr, bytes int)
