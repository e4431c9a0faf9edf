package gpu

import (
	"errors"
	"strings"
	"testing"
)

func TestOpenSaysWhatToUse(t *testing.T) {
	dev, err := Open(1)
	if dev != nil || !errors.Is(err, ErrNoDevice) {
		t.Fatalf("Open = %v, %v; want no device and ErrNoDevice", dev, err)
	}
	for _, part := range []string{"cuda:1", "--device cpu"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %s", err, part)
		}
	}
}
