package wiring

import (
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"

	"whorl/gpu"
	"whorl/tensor"
	"whorl/tensor/cpu"
)

// deviceName is the device as people read it.
func deviceName(i tensor.Info) string {
	return fmt.Sprintf("%s %s, %d threads", i.Name, i.Tier, i.Threads)
}

// Devices are the kinds of devices that --device takes on this machine.
func Devices() []string {
	out := []string{"cpu"}
	if dev, err := gpu.Open(0); err == nil {
		dev.Close()
		out = append(out, "cuda:0")
	}
	return out
}

// Open opens the device that the flags name.
func (f *ComputeOptions) Open() (tensor.Device, error) {
	if f.Threads < 0 {
		return nil, Usagef("--threads %d: want 0 (one per core) or more", f.Threads)
	}
	kind, index, indexed := strings.Cut(f.Device, ":")
	switch kind {
	case "cpu":
		if indexed {
			break
		}
		dev, err := cpu.Open(cpu.Options{Tier: f.Tier, Threads: f.Threads})
		if err != nil {
			return nil, Usagef("--device cpu: %w", err)
		}
		if cores := runtime.GOMAXPROCS(0); f.Threads > cores {
			slog.Warn("more threads than cores: every step waits for threads that do not run", "threads", f.Threads, "cores", cores)
		}
		return dev, nil
	case "cuda":
		i, err := strconv.Atoi(index)
		if indexed && (err != nil || i < 0) {
			break
		}
		dev, err := gpu.Open(i)
		if err != nil {
			return nil, Usagef("--device %s: %w", f.Device, err)
		}
		return dev, nil
	}
	if kind == "mps" {
		return nil, Usagef("--device mps: there are no kernels for Apple's GPUs: use --device cpu")
	}
	return nil, Usagef("--device %q is unknown: use cpu or cuda[:i]", f.Device)
}
