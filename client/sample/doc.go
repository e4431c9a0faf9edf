// Package sample turns logits into a token: penalties, temperature, top-k, top-p, min-p,
// and a seeded draw. Pure: no clock, no global randomness, no tensors.
package sample
