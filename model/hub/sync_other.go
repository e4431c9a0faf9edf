//go:build !linux

package hub

import "os"

// syncData puts what was written on the disk.
func syncData(f *os.File) error { return f.Sync() }
