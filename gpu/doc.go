// Package gpu is the home of the CUDA device. This build has none: [Open] says so and
// what to use instead, so that --device cuda gets an honest answer.
//
// It will know tensor and tensor/quant, and never a model: it computes what the Device
// contract asks for.
package gpu
