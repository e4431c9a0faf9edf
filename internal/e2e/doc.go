// Package e2e tries the built binary as a user does: real processes on loopback, real
// HTTP and WebSocket clients, signals. The tests run with `-tags e2e` (make e2e); without
// the tag the package is empty. It starts processes and ends only those.
package e2e
