//go:build purego

package cpu

func init() { purego = true }
