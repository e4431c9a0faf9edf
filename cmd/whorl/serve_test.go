package main

import (
	"strings"
	"testing"
	"time"

	"whorl/internal/wiring"

	"github.com/spf13/pflag"
)

// What serve says of wrong or odd values before it opens anything.
func TestServeSaysWhatIsWrong(t *testing.T) {
	long := strings.Repeat("n", 41)
	for _, c := range []struct{ args, want string }{
		{"--device mps", "--device mps: there are no kernels for Apple's GPUs: use --device cpu"},
		{"--device tpu", `--device "tpu" is unknown`},
		{"--public-name " + strings.Repeat("n", 129), "--public-name has 129 bytes: want at most 128, of which pages show 40 characters"},
		{"--public-name " + long, "pages show another public name"},
		{"--public-name " + long, "shown=" + long[:39] + "…"},
		{"--session-timeout 0", "want more than 0"},
		{"--stats-report-interval 10ms", "--stats-report-interval 10ms: want at least 1s, or 0 for none"},
	} {
		// A wrong --throughput ends the command where nothing else does.
		r := whorl(t, "", nil, append([]string{"serve", toy, "--new-swarm", "--throughput", "nothing"}, strings.Fields(c.args)...)...)
		if strings.HasPrefix(c.args, "--device") {
			r = whorl(t, "", nil, append([]string{"serve", toy, "--new-swarm"}, strings.Fields(c.args)...)...)
		}
		if r.code != exitUsage || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: exit %d, %s", c.args, r.code, r.err)
		}
	}
	if r := whorl(t, "", nil, "serve", toy, "--dry-run", "--public-name", strings.Repeat("n", 35)); strings.Contains(r.err, "public name") {
		t.Errorf("a name of 35 characters: %s", r.err)
	}
}

// The seeds' times, in their units.
func TestServeTimes(t *testing.T) {
	for _, c := range []struct {
		args                              []string
		step, session, delay, statsReport time.Duration
	}{
		{nil, 5 * time.Minute, 30 * time.Minute, 6 * time.Second, 0},
		{[]string{"--step_timeout", "60", "--session_timeout", "90.5", "--mean_block_selection_delay", "5", "--stats_report_interval", "60"},
			time.Minute, 90500 * time.Millisecond, 5 * time.Second, time.Minute},
	} {
		var f wiring.Server
		fs := newFlagSet()
		addServe(fs, &f)
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		f.Memory = 1 << 30
		cfg, err := f.Config()
		if got := cfg.Timeouts; err != nil || got.Idle != c.step || got.Session != c.session || cfg.Balance.Settle != c.delay || cfg.StatsEvery != c.statsReport {
			t.Errorf("%v: %v, %v, %v, %v, %v", c.args, got.Idle, got.Session, cfg.Balance.Settle, cfg.StatsEvery, err)
		}
	}
}

func newFlagSet() *pflag.FlagSet {
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SetNormalizeFunc(petalsNames)
	return fs
}
