package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"whorl/gpu"
	"whorl/tensor"
	"whorl/tensor/cpu"

	"github.com/spf13/cobra"
)

// version is set by the Makefile through -ldflags; a plain `go build` is a development
// build and says so.
var version = "dev"

// build is what `whorl version` tells.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	CPUTier string `json:"cpu_tier"`
}

// thisBuild reads the commit that the go command recorded in the binary.
func thisBuild() build {
	b := build{Version: version, Commit: "unknown", Go: runtime.Version(), CPUTier: chosenTier()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty {
		b.Commit += "+changes"
	}
	return b
}

func newVersion(w *world) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show version, commit, Go version and the CPU tier that this machine gets",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			if asJSON {
				return json.NewEncoder(w.out).Encode(b)
			}
			_, err := fmt.Fprintf(w.out, "whorl %s\ncommit %s\ngo %s\ncpu tier %s\n", b.Version, b.Commit, b.Go, b.CPUTier)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// chosenTier is the best set of kernels of this machine.
func chosenTier() string { return cpu.Tiers()[0] }

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
