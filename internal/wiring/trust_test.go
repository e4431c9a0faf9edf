package wiring

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"whorl/swarm/trust"
)

// What a node observed outlives it, and a broken file is put aside.
func TestMemoryOfPeers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trust-main.json")
	m := openMemory(path)
	m.Observe(trust.Observation{Peer: "liar", Kind: trust.Proven}, time.Now())
	m.Observe(trust.Observation{Peer: "hiccup", Kind: trust.Lost}, time.Now())
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { m.keep(ctx); close(done) }()
	end()
	<-done

	again := openMemory(path)
	if a, ok := again.Judge("liar", "", time.Now()); !ok || !a.Never {
		t.Errorf("the liar after another start: %+v, %v", a, ok)
	}
	if a, ok := again.Judge("hiccup", "", time.Now()); ok {
		t.Errorf("who was lost before the start is avoided: %+v", a)
	}

	if err := os.WriteFile(path, []byte(`{"version":1,"peers":[{"peer":""}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if all := openMemory(path).Standings(time.Now()); len(all) != 0 {
		t.Errorf("from a broken file: %+v", all)
	}
	if _, err := os.Stat(path + ".broken"); err != nil {
		t.Error(err)
	}
}
