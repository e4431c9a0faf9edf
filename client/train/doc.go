// Package train tunes prompts on a model whose weights are frozen: rows that go in front of every
// text (shallow), rows that are added in front of every block (deep), and a linear classifier
// behind the last block. It decides all numbers: initial tables, order of examples, gradients of
// losses, clipping, AdamW, schedules, and what a checkpoint holds. Blocks and head are
// somebody else's ([Blocks], [Head]), whose bits do not depend on where they are computed; so the
// same data, options and seed give the same tables to the last bit, on every layout, and also
// where training was interrupted and resumed.
//
// All arithmetic is float32 in a fixed order, each product and sum rounded, but for sums that
// say so, which are float64.
//
// Pure: no clock, no files, no global randomness.
package train
