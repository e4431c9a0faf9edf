// Package p2p is a node's place on the network: a libp2p host with an identity, streams to
// peers, pings, and the first contact with a swarm. It speaks TCP with TLS and QUIC; a private
// swarm adds a pre-shared key, under which QUIC cannot run.
//
// It does not know who serves what (dir) nor what the bytes of a stream mean (wire).
package p2p
