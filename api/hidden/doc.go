// Package hidden is the dialect of researchers: rows of hidden states in and out of any blocks over a
// WebSocket, in sessions and without, and gradients. A message is a small JSON header and numbers.
//
// It computes nothing but losses: client does, and the model's head. Memory for a message is taken
// from the budget of rows before its numbers are read.
package hidden
