// Package nn is the decoder block that model families share, written once over the ops of
// tensor.Device. A [Spec] says which graph: a family is data (a Spec and tensor names), and
// a new family adds fields here only where its graph really differs.
//
// The package does not read files and does not know families; it owns no goroutine and no
// KV cache. Nothing is allocated per step: all buffers live in a [Workspace].
package nn
