// Package responses is the dialect of OpenAI's Responses: answers as lists of items, which may be
// stored and gone on from. It turns their JSON into an api.Ask, and what becomes of that into
// their JSON.
//
// It runs nothing itself and checks no sampling parameter: api and client do. What it stores is
// in memory and bounded.
package responses

import "whorl/api"

// Dialect serves the operations on responses.
type Dialect struct {
	*api.API
	stored *store
}

// New makes one with nothing stored.
func New(a *api.API) Dialect { return Dialect{a, newStore()} }
