package p2p

import (
	"errors"

	"golang.org/x/sys/windows"
)

// AddrInUse tells whether another socket has the address.
func AddrInUse(err error) bool { return errors.Is(err, windows.WSAEADDRINUSE) }
