// Package sharedfile opens and locks files that several processes of one machine use: what
// one has open others may rename and delete on every system, and locks last no longer than
// the process that took them, however it ends. A lock keeps nobody from reading or writing
// the file: it binds those who ask for it.
package sharedfile

// How says with whom a lock is shared.
type How int

// Kinds of locks.
const (
	Shared    How = iota // with all others that are shared
	Exclusive            // with nobody
)
