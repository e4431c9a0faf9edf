// Package admission decides who holds the cache of a server: who gets pages now, who waits,
// and which session is parked because somebody else needs its place. It decides and does
// nothing: the clock is passed in, pages are numbers, and the caller carries out.
//
//	Ask ----> waits ----> Next says Grant ----> holds ----> Leave
//	             |                                |
//	             +--> Next says Refuse            +--> Next or Ask says Park
//
// A grant is for a session's whole budget, so that a session that runs never meets a full
// cache. It can be taken back instead: to park a session is to end it here; its client opens
// it again, perhaps elsewhere, and replays it with the same bits (ADR 0009).
//
// Who needs room is answered in three steps. First go sessions that computed nothing since
// they were granted and whose lease is over. Then, for whoever holds less than a fair share,
// those of whoever holds more: free identities do not help, since peers that share an
// address prefix share one share. Last, for anybody, those at rest. Nobody else is parked.
// Among several the one that is least used goes: the longest at rest, weighed by its size.
package admission
