// Package control is the dialect of whorl's own tools: this node and changes to it, the swarm as
// it looks from here, liveness and metrics.
package control

import "whorl/api"

// Dialect serves the operations with the tags control, node, swarm and health.
type Dialect struct {
	*api.API
	probes chan struct{} // a place for each probe that runs
}

// New makes one.
func New(a *api.API) Dialect { return Dialect{a, make(chan struct{}, maxProbes)} }
