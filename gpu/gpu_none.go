package gpu

import (
	"errors"
	"fmt"

	"whorl/tensor"
)

// ErrNoDevice says that this build cannot compute on a GPU.
var ErrNoDevice = errors.New("this build has no CUDA device: use --device cpu")

// Open opens CUDA device i. In this build it always fails with ErrNoDevice.
func Open(i int) (tensor.Device, error) {
	return nil, fmt.Errorf("open cuda:%d: %w", i, ErrNoDevice)
}
