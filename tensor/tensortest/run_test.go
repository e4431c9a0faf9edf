package tensortest

import (
	"testing"

	"whorl/tensor/ref"
)

// The oracle passes its own suite: the suite asks nothing that it does not give.
func TestOracle(t *testing.T) { Run(t, ref.New()) }
