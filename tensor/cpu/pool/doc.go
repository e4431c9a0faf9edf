// Package pool runs work on a fixed number of threads: tiles taken one by one, by a
// caller and workers that spin for a while before they sleep.
//
// A run is a barrier a hundred times a decoded token, so its cost is that of a few atomic
// operations, and it waits for tiles, not for threads: a worker whose core another program
// took holds up nothing but the tile that it has begun, and that the caller may do instead
// (takeover.go). Who waits reads ahead what the next run will read first (ahead.go).
//
// It knows no format, no tensor and no device: what a tile is, its task says.
package pool
