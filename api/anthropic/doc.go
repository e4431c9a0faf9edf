// Package anthropic is the dialect of Anthropic's clients: Messages and the count of their tokens.
// It turns their JSON into an api.Ask, and what becomes of that into their JSON.
//
// It runs nothing itself and checks no sampling parameter: api and client do. Images,
// thinking and tools of Anthropic's own are refused by name.
package anthropic

import "whorl/api"

// Dialect serves the operations with the tag anthropic.
type Dialect struct{ *api.API }
