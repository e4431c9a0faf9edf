// Package lint is the house rules as tests, with the standard library only: who may
// import whom and why, which libraries stay behind which fence, what must be pure, that
// packages are documented and tested, that files stay small, and that paths named in the
// documents exist. docs/architecture.md explains the rules.
//
// It does not look at style that gofmt, vet and golangci-lint know better.
package lint
