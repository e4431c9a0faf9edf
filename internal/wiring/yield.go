package wiring

import (
	"context"
	"log/slog"
	"runtime"

	"whorl/internal/courtesy"
)

// gives tells whether a node gives way to other programs of its machine: as --yield says, and
// by itself where somebody works at the machine and started it by hand.
func gives(yield, goos string, getenv func(string) string) bool {
	switch yield {
	case "on":
		return true
	case "off":
		return false
	}
	switch {
	case getenv("INVOCATION_ID") != "": // set by systemd alone
		return false
	case goos == "darwin" || goos == "windows":
		return true
	}
	return getenv("DISPLAY") != "" || getenv("WAYLAND_DISPLAY") != ""
}

// giveWay has the process give way if it should. left is what others leave it, nil if it does
// not give way or the system does not tell; undo gives back what would stay behind.
func (f *Server) giveWay(ctx context.Context) (left func() float64, undo func()) {
	undo = func() {}
	if !gives(f.Yield, runtime.GOOS, func(name string) string { return Getenv(ctx, name) }) {
		return nil, undo
	}
	undo, err := courtesy.GiveWay()
	if err != nil {
		slog.Warn("this node cannot give way to other programs", "reason", err)
		return nil, undo
	}
	threads := f.Compute.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0) // as devices do
	}
	m, err := courtesy.NewMeter(threads)
	if err != nil {
		slog.Info("this node gives way to other programs; the speed that it announces does not follow", "reason", err)
		return nil, undo
	}
	slog.Info("this node gives way to other programs, and announces the speed that they leave it: --yield off for a machine of its own")
	return m.Share, undo
}
