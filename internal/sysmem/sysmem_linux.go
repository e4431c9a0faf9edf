package sysmem

import "os"

// Available is what this process can take now.
func Available() (Free, error) { return readProc(os.DirFS("/")) }

// Watch watches this process's memory.
func Watch() *Watcher { return NewWatcher(os.DirFS("/")) }
