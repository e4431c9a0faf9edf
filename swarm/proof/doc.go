// Package proof defines what a computed row is named by, so that two nodes can compare their
// work without sending it: the hash of a session's mode, which says everything beside the
// manifest that alters its numbers, and the leaf of a row, which says what went into one
// stage and what came out. Receipts, audits, caches of prefixes and training use these and
// no others.
//
// Pure: plain data in, hashes out. It does not decide what to compare (audits) nor keep
// anything. docs/adr/0014-identities.md has the reasons.
package proof
