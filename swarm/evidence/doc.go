// Package evidence has nodes tell each other of servers that gave wrong rows: what a node's audits
// proved, shown by a canary, is told to the peers that are connected, and they, once they have
// found it to be so themselves, tell theirs. Now and then each asks another what it knows.
//
// It carries, and decides nothing: what is heard, from whom and how much is trust.Docket's to say;
// whether it is so a node's engines find out (client.Engine.Check). ADR 0029.
package evidence
