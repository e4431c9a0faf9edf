package p2p

import (
	"errors"

	"golang.org/x/sys/windows"
)

// addrInUse tells whether another socket has the address.
func addrInUse(err error) bool { return errors.Is(err, windows.WSAEADDRINUSE) }
