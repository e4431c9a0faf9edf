//go:build !windows

package main

import "os"

// drawable tells whether a terminal understands how the cursor is moved.
func drawable(*os.File) bool { return true }
