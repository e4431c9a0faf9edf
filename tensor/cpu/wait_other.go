//go:build !amd64 || purego

package cpu

// pause lets a little time pass inside a spin; without assembly it is the time of a call.
//
//go:noinline
func pause() {}

// fetch does nothing without assembly: Go has no word for it.
func fetch(uintptr, int) {}
