// Package blocks is a span of loaded blocks on one device: load, step, measure. Rows go in
// and come out in host memory, whatever the device.
//
// It knows neither sessions nor streams; kvcache decides who uses which pages, and the
// caller brings them in the batch.
package blocks
