//go:build !clockskew

package wiring

import "time"

// wallClock is the clock that other nodes see in this node's records.
var wallClock func() time.Time // nil: the system's
