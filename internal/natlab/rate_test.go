//go:build linux && e2e

package natlab

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// A node finds out by itself what its line carries, with members that have faster ones, and says so. Of
// a line of 10 Mbit/s up and 40 down that is right to a quarter where nobody else has the machine
// (NATLAB=all, NATLAB=delays): elsewhere the laboratory's own packets come late and in heaps.
// TestRatesOfALine in swarm/p2p has lines in virtual time.
func TestNetworkRate(t *testing.T) {
	w := newWorld(t, 5*time.Millisecond)
	const mbit = 1e6 / 8
	h := add(t, w.Lab, Spec{Name: "home", Addrs: []string{"20.5.0.1"}, Delay: w.delay, Up: 10 * mbit, Down: 40 * mbit})
	srv, file := w.serve(t, h, "m", "--block-indices", "0:8")
	srv.ready(t, h, file)
	srv.logged(t, `msg="network rate"`)
	m := regexp.MustCompile(`msg="network rate" link="([0-9.]+) Mbit/s up, ([0-9.]+) Mbit/s down"`).FindStringSubmatch(srv.text())
	if m == nil {
		t.Fatal(srv.text())
	}
	for i, want := range []float64{10, 40} {
		got, err := strconv.ParseFloat(m[i+1], 64)
		if err != nil || os.Getenv("NATLAB") != "" && math.Abs(got-want) > want/4 {
			t.Errorf("%s Mbit/s, want %.0f", m[i+1], want)
		}
	}
	t.Log(m[0])
}
