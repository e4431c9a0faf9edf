// Package responses is the dialect of OpenAI's Responses: answers as lists of items, which may be
// kept and gone on from. It turns their JSON into an api.Ask, and what becomes of that into
// their JSON.
//
// It runs nothing itself and checks no sampling parameter: api and client do. What is kept, where
// and for how long is api.Config's shelf of answers.
package responses

import "whorl/api"

// Dialect serves the operations on responses.
type Dialect struct{ *api.API }
