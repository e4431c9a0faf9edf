// Package server is a swarm server: it plans memory, chooses and loads a span of blocks,
// announces itself, and computes rows for the sessions of other people.
//
// It is not an HTTP server (api is), opens no socket (swarm/p2p hands streams in), and
// never looks inside a model (server/blocks does).
//
//	control stream --> reader ----+                          +--> outbox --> control stream
//	(client)           per stream |   frames   compute loop  |    results, Done, journal
//	                              +--> queue --> (one) ------+
//	push stream -----> reader ----+    sched      engine     +--> pusher --> push stream
//	(predecessor)      per stream                                 (successor)
//
// Readers check frames and put them in the queue of their session; when that is full they
// stop reading, which stops the sender. The compute loop asks sched for the next
// iteration, steps the engine, and leaves outputs in the queues of the writers. It never
// waits for a peer: a session whose writer has a full queue is left out.
//
// All protocol state of all sessions lies under Server.mu. The critical sections are short:
// rows are decoded, copied, computed and encoded outside it. Methods whose names end in Locked
// are called with it held.
package server
