// Package api is what all dialects of a node's HTTP face share: one request for answers (Ask)
// and its events, who may call a route, limits, the table from errors to statuses, the
// contract that requests are checked against (openapi.yaml, of which api/gen is made).
//
// A dialect (api/openai, api/anthropic, api/ollama, api/petals, api/control) turns its own JSON into an Ask and what
// becomes of it into its own JSON. None sees another; api/routes joins them for the two
// listeners. Who may call what, and which form its errors have, is in openapi.yaml (x-listener,
// x-token, x-pages, x-errors); how an error becomes a status is in failure.go.
//
// It does not listen, knows no flags, draws no pages (web), and generates nothing itself:
// client does.
package api
