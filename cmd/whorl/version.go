package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"whorl/internal/wiring"
	"whorl/tensor/cpu"
)

// version is set by the Makefile through -ldflags; a plain `go build` is a development
// build and says so.
var version = "dev"

func init() { wiring.BuildVersion = version }

// build is what `whorl version` tells.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	// Tier is the set of kernels that this machine gets, Tiers are all that it can run, the best first.
	Tier    string   `json:"tier"`
	Tiers   []string `json:"tiers"`
	Devices []string `json:"devices"` // that --device takes here
}

// thisBuild reads the commit that the go command recorded in the binary.
func thisBuild() build {
	b := build{Version: version, Commit: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Tier: chosenTier(), Tiers: cpu.Tiers(), Devices: wiring.Devices()}
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
			_, err := fmt.Fprintf(w.out, "whorl %s\ncommit %s\ngo %s\ncpu tier %s\n", b.Version, b.Commit, b.Go, b.Tier)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// chosenTier is the best set of kernels of this machine.
func chosenTier() string { return cpu.Tiers()[0] }
