package main

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

// open opens the device that the flags name.
func (f *computeFlags) open() (tensor.Device, error) {
	if f.threads < 0 {
		return nil, usagef("--threads %d: want 0 (one per core) or more", f.threads)
	}
	kind, index, indexed := strings.Cut(f.device, ":")
	switch kind {
	case "cpu":
		if indexed {
			break
		}
		dev, err := cpu.Open(cpu.Options{Tier: f.tier, Threads: f.threads})
		if err != nil {
			return nil, usagef("--device cpu: %w", err)
		}
		if cores := runtime.GOMAXPROCS(0); f.threads > cores {
			slog.Warn("more threads than cores: every step waits for threads that do not run", "threads", f.threads, "cores", cores)
		}
		return dev, nil
	case "cuda":
		i, err := strconv.Atoi(index)
		if indexed && (err != nil || i < 0) {
			break
		}
		dev, err := gpu.Open(i)
		if err != nil {
			return nil, usagef("--device %s: %w", f.device, err)
		}
		return dev, nil
	}
	if kind == "mps" {
		return nil, usagef("--device mps: there are no kernels for Apple's GPUs: use --device cpu")
	}
	return nil, usagef("--device %q is unknown: use cpu or cuda[:i]", f.device)
}
