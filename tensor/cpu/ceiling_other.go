//go:build !amd64 || purego

package cpu

// archLoops: this build has no assembly.
func archLoops() []loops { return nil }
