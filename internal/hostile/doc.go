// Package hostile attacks real nodes as strangers do: p2p hosts, directories, servers and
// gateways of one process on loopback, with the tiny fake model of swarmtest, beside which
// honest streams must keep their text and memory must keep to its plan. It is for tests
// alone; what each attack is stopped by is in docs/security.md.
package hostile
