// Package client is a user's side of a swarm: it embeds tokens, sends rows through a chain
// of servers, applies the LM head, samples, and keeps the session alive when servers die.
//
// It is not a server and imports none; it sees no network library: a directory and a
// dialer are handed in. HTTP lives in api.
package client
