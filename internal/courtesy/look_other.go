//go:build !linux && !freebsd && !windows

package courtesy

import (
	"fmt"
	"runtime"
)

func look() (sample, error) {
	return sample{}, fmt.Errorf("how busy the processors are is not known on %s", runtime.GOOS)
}
