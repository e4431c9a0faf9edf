package blocks

import "time"

// Info describes one loaded block.
type Info struct {
	Index int
	Bytes int64 // memory on the device
	Load  time.Duration
	Root  string // of its weights, in hex, if it was compared with that of the manifest
}

// Rates are tokens per second through one block.
type Rates struct {
	Inference float64 // decode: one row a step
	Forward   float64 // prefill
}

// Sizes is what blocks take, in bytes.
type Sizes struct {
	Block     int64 // the largest block, as loaded
	Adapters  int64 // what all adapters add to a block at most
	Token     int64 // keys and values of one position in one block
	Workspace int64 // buffers of a step, shared by all blocks
	Shared    bool  // query heads share key/value heads: cache is cheap
}
