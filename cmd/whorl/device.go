package main

import (
	"fmt"

	"whorl/tensor"
)

// deviceName is the device as people read it.
func deviceName(i tensor.Info) string {
	return fmt.Sprintf("%s %s, %d threads", i.Name, i.Tier, i.Threads)
}
