package sysmem

import "os"

// Available is what this process can take now.
func Available() (Free, error) { return readProc(os.DirFS("/")) }
