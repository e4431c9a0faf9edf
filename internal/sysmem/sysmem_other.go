//go:build !linux && !darwin && !freebsd && !windows

package sysmem

import (
	"fmt"
	"runtime"
)

// Available cannot tell on this system.
func Available() (Free, error) {
	return Free{}, fmt.Errorf("not known on %s", runtime.GOOS)
}
