// Package control is the dialect of whorl's own tools: this node and changes to it, the swarm as
// it looks from here, events and logs, liveness and metrics.
package control

import (
	"sync"

	"whorl/api"
)

// Dialect serves the operations with the tags control, node, swarm and health.
type Dialect struct {
	*api.API
	probes    chan struct{} // a place for each probe that runs
	followers *followers    // requests that follow or wait
	readers   chan struct{} // a place for each request that reads the history
	changes   *sync.Mutex   // held while settings are changed
}

// New makes one.
func New(a *api.API) Dialect {
	return Dialect{a, make(chan struct{}, maxProbes), &followers{of: map[string]int{}}, make(chan struct{}, maxReaders), new(sync.Mutex)}
}
