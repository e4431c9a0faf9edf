// Package model turns a checkpoint on disk into blocks and a head on a device.
//
//	family: config.json or GGUF metadata -> Config, tensor names
//	Open: path -> Checkpoint (headers read, every tensor's presence and shape checked)
//	Checkpoint.LoadBlock, LoadHead: tensors -> un-permute, convert -> device
//
// A [Family] is data: how to read its configuration and what its tensors are called. The
// graph is that of model/nn, driven by Config. A configuration field that may alter the
// maths and is not understood is an error that names it, never ignored.
//
// The package is not a runtime: it keeps no KV cache, schedules nothing and samples
// nothing. It reads no tokenizer either; it says where the tokenizer's sources lie.
package model
