//go:build linux && e2e

package natlab

import (
	"fmt"
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
	a, err := c.result(90 * time.Second)
	same(t, a, err, alone(t, long))
	t.Logf("%s; %.0f ms for %d tokens with the death of a relay; %d reroutes", a.how, a.Timings.DecodeMS, long, a.Reroutes)
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
	a, err := c.result(90 * time.Second)
	same(t, a, err, alone(t, long))
	t.Logf("%s; %.0f ms for %d tokens although both routers forgot; %d reroutes", a.how, a.Timings.DecodeMS, long, a.Reroutes)
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
	a, err := c.result(90 * time.Second)
	same(t, a, err, alone(t, long))
	t.Logf("%.0f ms for %d tokens although the address changed; %d reroutes", a.Timings.DecodeMS, long, a.Reroutes)
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

// What delay adds to a token, a prompt and the opening of a session: S servers are S+1 one-way
// delays. Loss of 1 % is shown beside it.
func TestDelays(t *testing.T) {
	if os.Getenv("NATLAB") == "" {
		t.Skip("not proven: what delay adds to a token, since that is measured on a quiet machine (make natlab)")
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| transport | one way ms | servers | loss | token ms | added, in one-way delays | prompt of 128, added |\n|---|---|---|---|---|---|---|\n")
	base := map[int][2]float64{}
	type link struct {
		oneWay time.Duration
		loss   float64
	}
	links := []link{{0, 0}, {40 * time.Millisecond, 0}, {10 * time.Millisecond, 0.01}}
	if os.Getenv("NATLAB") == "all" { // NATLAB=delays fits a short measurement
		links = append(links, link{10 * time.Millisecond, 0})
	}
	for _, c := range links {
		for _, transport := range []string{"tcp", "udp"} {
			for _, s := range []int{1, 2, 4} {
				token, first := measure(t, c.oneWay, c.loss, transport, s)
				if c.oneWay == 0 && transport == "tcp" {
					base[s] = [2]float64{token, first}
				}
				added, per := "-", float64(c.oneWay)/1e6
				more := "-"
				if c.oneWay > 0 {
					hops := (token - base[s][0]) / per
					added, more = fmt.Sprintf("%.2f", hops), fmt.Sprintf("%.2f", (first-base[s][1])/per)
					if c.loss == 0 && hops > 1.1*float64(s+1) {
						t.Errorf("%s, %v, %d servers: a token costs %.2f one-way delays more, want %d", transport, c.oneWay, s, hops, s+1)
					}
				}
				fmt.Fprintf(&table, "| %s | %v | %d | %.0f %% | %.1f | %s | %s |\n", map[string]string{"tcp": "TCP", "udp": "QUIC"}[transport], per, s, 100*c.loss, token, added, more)
			}
		}
	}
	t.Logf("\n%s", table.String())
	os.WriteFile("../../artifacts/natlab-delays.md", []byte(table.String()), 0o644)
}

// measure is the time of a token and of a prompt of 128 through s servers, in milliseconds.
func measure(t *testing.T, oneWay time.Duration, loss float64, transport string, s int) (token, first float64) {
	w := newWorld(t, 0)
	defer w.Close()
	var servers []*proc
	listen := fmt.Sprintf("/ip4/0.0.0.0/%s/4001", transport)
	if transport == "udp" {
		listen += "/quic-v1"
	}
	for i := range s {
		h := add(t, w.Lab, Spec{Name: fmt.Sprint("server", i), Addrs: []string{fmt.Sprintf("20.3.0.%d", i+1)}, Delay: oneWay / 2, Loss: loss / 2})
		args := []string{"serve", toy, "--model-name", "m", "--throughput", "100", "--http", "off", "--admin", "off", "--mean-block-selection-delay", "0", "--no-port-mapping",
			"--initial-peers", strings.Join(w.peers, ","), "--host-maddrs", listen, "--block-indices", fmt.Sprintf("%d:%d", i*8/s, (i+1)*8/s), "--skip-reachability-check"}
		servers = append(servers, h.run(t, args...))
	}
	for _, p := range servers {
		p.logged(t, "msg=ready")
	}
	ids := make([]string, 128)
	for i := range ids {
		ids[i] = fmt.Sprint(3 + i)
	}
	c := add(t, w.Lab, Spec{Name: "client", Addrs: []string{"20.3.1.1"}, Delay: oneWay / 2, Loss: loss / 2})
	args := ask("m", tokens, w.peers)
	args[slices.Index(args, prompt)] = strings.Join(ids, ",")
	a, err := c.answered(t, args)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(servers, w.boots...) {
		p.kill()
	}
	return a.Timings.DecodeMS / float64(tokens-1), a.Timings.PrefillMS
}
