//go:build unix

package p2p

import (
	"errors"
	"syscall"
)

// AddrInUse tells whether another socket has the address.
func AddrInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
