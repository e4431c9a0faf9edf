// Package petals is the dialect of the Petals gateway: its chat protocol over a WebSocket, its
// one-shot route, and the state of the swarm as its health monitor gave it.
//
// It runs nothing itself and checks no sampling parameter: api and client do.
package petals

import "whorl/api"

// Dialect serves the operations with the tag legacy.
type Dialect struct{ *api.API }
