// Package openai is the dialect of OpenAI's clients: chat completions, completions and models.
// It turns their JSON into an api.Ask, and what becomes of that into their JSON.
//
// It runs nothing itself and checks no sampling parameter: api and client do.
package openai

import "whorl/api"

// Dialect serves the operations with the tag openai.
type Dialect struct{ *api.API }
