package wiring

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"

	"whorl/api"
	"whorl/server"
	"whorl/swarm/dir"
	"whorl/swarm/evidence"
)

// Connections and streams take a sixteenth of a server's memory, within bounds: below the
// least some dozens of sessions would not fit, above the most nobody needs more.
const (
	networkPart = 16
	minNetwork  = 64 << 20
	maxNetwork  = 1 << 30
)

// Strangers is what peers and users can make a server hold, in bytes, beside the rows in its
// queues: net of it for connections and streams, and rows for rows and gradients of users. total is
// the memory of the node.
func Strangers(net, rows, total int64, http bool) (network, rowBytes, all int64) {
	if net == 0 {
		net = min(max(total/networkPart, minNetwork), maxNetwork)
	}
	if rows == 0 {
		rows = api.RowBytes(total)
	}
	all = net + dir.Memory() + evidence.Memory()
	if http {
		all += api.Memory(rows)
	}
	return net, rows, all
}

// roomFor is the memory of a server: as given, or what is free. It is looked up once, before
// anything is loaded, so that all that is planned from it fits together.
func (f *Server) roomFor() (server.Room, error) {
	if f.Memory > 0 {
		return server.Room{Bytes: int64(f.Memory)}, nil
	}
	var err error
	if f.room.Bytes == 0 {
		f.room, err = server.FreeRoom()
	}
	return f.room, err
}

// limitHeap has Go's collector keep to what the plan leaves it: weights and caches lie
// elsewhere. An operator's GOMEMLIMIT stands.
func limitHeap(p server.MemoryPlan) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := p.Heap()
	if runtime.GOOS != "linux" { // there weights and caches are in Go's heap too
		limit = p.Total
	}
	debug.SetMemoryLimit(limit)
	slog.Debug("limit of the heap", "bytes", limit)
}
