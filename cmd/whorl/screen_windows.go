package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// drawable has a terminal understand how the cursor is moved, and tells whether it does.
func drawable(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	return windows.GetConsoleMode(h, &mode) == nil && windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
