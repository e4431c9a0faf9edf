//go:build clockskew

package wiring

import (
	"fmt"
	"os"
	"time"
)

// wallClock is off by WHORL_CLOCK_SKEW, such as "-20s", in binaries that are built for tests with this
// tag: a program that reads the clock without libc cannot be told another time from outside.
var wallClock = func() func() time.Time {
	skew, err := time.ParseDuration(os.Getenv("WHORL_CLOCK_SKEW"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "WHORL_CLOCK_SKEW:", err)
		os.Exit(2)
	}
	return func() time.Time { return time.Now().Add(skew) }
}()
