//go:build !amd64 || purego

package pool

// pause lets a little time pass inside a spin; without assembly it is the time of a call.
//
//go:noinline
func pause() {}

// Fetch does nothing without assembly: Go has no word for it.
func Fetch(uintptr, int) {}
