// Package dir finds out who serves what. Three parts with one job each:
//
//	Kademlia DHT     who serves this model at all: provider records keyed by model UID
//	signed records   what a server says of itself; nobody can forge or re-date one
//	exchange         a pull returns the records that the asker lacks and takes its own, so
//	                 that a newcomer has the full view in one round trip; what the UIDs in
//	                 them name (manifests) is then fetched by its hash
//
// Signatures stop forging but not omission, so pulls of up to three tellers are merged.
// A record lives as long as it says, counted from its receipt; a peer that cannot be
// reached is suspected at once and hidden until it says something newer.
//
// It does not choose among servers (route, balance) and opens no session.
package dir
