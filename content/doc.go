// Package content names bytes by what they are: SHA-256, each use in a domain of its own,
// and trees of it over what is too long to be checked at once. Whoever has a name can tell
// whether bytes are what it names, wherever they came from.
//
// It knows nothing of what the bytes mean, and it reads no files. Why SHA-256, and why
// chunks of this size, is in docs/adr/0014-identities.md.
package content
