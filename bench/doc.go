// Package bench measures: speed against what the machine could do at best, in the same
// minutes; what several users at once get; and what formats of weights cost in quality.
//
// Speed is that of models, or of shapes of models with random weights: slices of work
// alternate with slices of a ceiling, and a share is the median of the ratios of the pairs.
// A speed alone says little where memory and clock drift with the neighbours of a virtual
// machine; a ratio of two slices that follow each other says how good the code is.
//
// # Ceilings
//
// A [Ceiling] does as little as possible per byte or operation, on the threads of the device
// that is measured. That of tensor/cpu reads 1 GiB a thread (huge pages where the system
// gives them, tiles of 4 MiB handed out as products hand theirs out) with a loop of 512-bit
// loads, and repeats multiply-and-add instructions on registers: VPDPBUSD for block-quantised
// formats, which meet activations in 8 bits, and float FMA for the others. On a processor
// without those loops memory is read by plain Go, which may fall short of the ceiling, and
// dot products have none: shares of them are absent, and a note says so.
//
// # What counts
//
// Bytes are those of the model's own format, not as a device repacks them: a tied embedding
// counts once, one that is apart from the LM head not at all, since a step reads single rows
// of it. Operations of a prefill are the products with weights, two for each weight and row,
// and the LM head for the last row; attention comes on top and is not counted. A step goes
// the way of a real one: embed, upload, blocks, download, logits in host memory.
//
// # Users
//
// [MeasureServing] is a closed loop of clients, who are handed to it as a function ([Ask]):
// it counts tokens and takes times, and does not know what answers. Its levels may be measured in
// turns, round by round, and are then compared within each ([Multiples]). [MeasureBeside] has
// answers run on while others, further away, or a long prompt come and go in every second window.
//
// # Quality
//
// [MeasureQuality] scores a fixed text with the same weights in several forms. The mean
// log-likelihood of a token is the measure, and differences are taken token by token, so
// that their standard error says how much of them is chance.
//
// The package judges nothing, knows no network and no sampler, prints nothing and opens no
// files; cmd/whorl hands it a device and makes tables.
package bench
