//go:build linux && e2e

package natlab

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// long is an answer that takes some seconds over a link of 10 ms.
const long = 160

// begun waits until a generate has its stream.
func (p *proc) begun(t *testing.T) { t.Helper(); p.logged(t, "protocol=/whorl/session") }

// warm asks once, so that whoever is asked next knows the server.
func (w *world) warm(t *testing.T, model string) {
	t.Helper()
	if _, err := w.host(t, "public").answered(t, ask(model, 1, w.peers)); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, a answer, err error, want []int32) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.IDs, want) {
		t.Errorf("ids %v, of one process %v", a.IDs, want)
	}
}

// A session between two that no hole can be punched for goes on over the second relay when the
// first dies in mid-answer.
func TestRelayDies(t *testing.T) {
	w := newWorld(t, 10*time.Millisecond)
	h := w.host(t, "symmetric")
	srv, file := w.serve(t, h, "m", "--block-indices", "0:8")
	srv.ready(t, h, file)
	w.warm(t, "m")
	c := w.host(t, "symmetric").run(t, ask("m", long, w.peers)...)
	c.begun(t)
	c.logged(t, "via=")
	<-time.After(500 * time.Millisecond)
	var dead *proc
	for i, b := range w.boots { // the relay that carries it
		if strings.Contains(c.text(), "via="+b.ID) {
			dead = w.boots[i]
		}
	}
	if dead == nil {
		t.Fatalf("nothing says which relay is used:\n%s", c.text())
	}
	dead.kill()
	a, err := c.result(patience)
	same(t, a, err, alone(t, long))
	t.Logf("%s; %.0f ms for %d tokens with the death of a relay, the longest pause %.0f ms; %d reroutes", a.how, a.Timings.DecodeMS, long, a.Timings.PauseMS, a.Reroutes)
}

// A router that starts again, and so forgets all, costs a pause and no token.
func TestRouterForgets(t *testing.T) {
	w := newWorld(t, 10*time.Millisecond)
	h := w.host(t, "port-restricted")
	srv, file := w.serve(t, h, "m", "--block-indices", "0:8")
	srv.ready(t, h, file)
	w.warm(t, "m")
	ch := w.host(t, "port-restricted")
	c := ch.run(t, ask("m", long, w.peers)...)
	c.begun(t)
	<-time.After(1500 * time.Millisecond)
	h.Boxes[0].Forget()
	ch.Boxes[0].Forget()
	a, err := c.result(patience)
	same(t, a, err, alone(t, long))
	t.Logf("%s; %.0f ms for %d tokens although both routers forgot, the longest pause %.0f ms; %d reroutes", a.how, a.Timings.DecodeMS, long, a.Timings.PauseMS, a.Reroutes)
}

// A client that is carried to another network goes on with the same ids.
func TestAddressChanges(t *testing.T) {
	w := newWorld(t, 10*time.Millisecond)
	h := w.host(t, "public")
	srv, file := w.serve(t, h, "m", "--block-indices", "0:8")
	srv.ready(t, h, file)
	w.warm(t, "m")
	ch := add(t, w.Lab, Spec{Name: "laptop", Addrs: []string{"20.2.0.1"}, Delay: w.delay})
	c := ch.run(t, ask("m", long, w.peers)...)
	c.begun(t)
	<-time.After(500 * time.Millisecond)
	if err := ch.Move("20.2.0.2"); err != nil {
		t.Fatal(err)
	}
	a, err := c.result(patience)
	same(t, a, err, alone(t, long))
	t.Logf("%.0f ms for %d tokens although the address changed, the longest pause %.0f ms; %d reroutes", a.Timings.DecodeMS, long, a.Timings.PauseMS, a.Reroutes)
}

// A mapping that is forgotten after 30 idle seconds stays, since connections say something more
// often.
func TestIdleMapping(t *testing.T) {
	if os.Getenv("NATLAB") != "all" {
		t.Skip("not proven: mappings of 30 s, since that takes a minute (make natlab)")
	}
	w := newWorld(t, time.Millisecond)
	h := w.host(t, "port-restricted")
	srv, file := w.serve(t, h, "m", "--block-indices", "0:8")
	srv.ready(t, h, file)
	w.warm(t, "m")
	<-time.After(65 * time.Second)
	a, err := w.host(t, "public").answered(t, ask("m", tokens, w.peers))
	same(t, a, err, alone(t, tokens))
	if n := strings.Count(srv.text(), "others reach this node through a relay"); n > 2 {
		t.Errorf("relays had to be found anew: %d reservations", n)
	}
}
