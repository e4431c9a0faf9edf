//go:build unix

package p2p

import (
	"errors"
	"syscall"
)

// addrInUse tells whether another socket has the address.
func addrInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
