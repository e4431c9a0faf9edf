package wiring

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"testing"
)

func TestThreadsBeyondCoresAreWarnedOf(t *testing.T) {
	var log bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(old)
	cores := runtime.GOMAXPROCS(0)
	for threads, warned := range map[int]bool{0: false, 1: false, cores: false, cores + 1: true} {
		log.Reset()
		f := ComputeOptions{Device: "cpu", Tier: "auto", Threads: threads}
		dev, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		dev.Close()
		if strings.Contains(log.String(), "more threads than cores") != warned {
			t.Errorf("%d threads on %d cores: log %q", threads, cores, log.String())
		}
	}
}
