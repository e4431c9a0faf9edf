//go:build linux && e2e

package natlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// turns is how often each figure is taken. The least counts, since a machine that has something
	// else to do only adds, and so does BBR (bound), and with loss the median.
	turns = 5
	// spoken is how many tokens a turn has whose mean is the time of one.
	spoken = 12
	// rows is the length of the prompt: a letter is a token of the toy model.
	rows = 128
)

// sitting is a user whose connections to servers are there: a gateway that has been used.
type sitting struct {
	host *Host
	http string
}

// figures are times in milliseconds: to open a session, of a prompt, and of a token.
type figures struct{ open, prompt, token float64 }

// turn has one session.
func (s *sitting) turn(model, prompt string) (f figures, err error) {
	d := websocket.Dialer{NetDialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		err = s.host.Do(func() error { c, err = new(net.Dialer).DialContext(ctx, network, addr); return err })
		return c, err
	}}
	c, _, err := d.Dial("ws"+strings.TrimPrefix(s.http, "http")+"/api/v2/generate", nil)
	if err != nil {
		return f, err
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(60 * time.Second))
	next := func() (last bool, err error) {
		_, b, err := c.ReadMessage()
		var m struct{ OK, Stop bool }
		if err == nil {
			err = json.Unmarshal(b, &m)
		}
		if err == nil && !m.OK {
			err = errors.New(string(b))
		}
		return m.Stop, err
	}
	ms := func(since time.Time) float64 { return float64(time.Since(since)) / 1e6 }
	begun := time.Now()
	c.WriteJSON(map[string]any{"type": "open_inference_session", "model": model, "max_length": rows + spoken + 2})
	if _, err := next(); err != nil {
		return f, err
	}
	f.open = ms(begun)
	begun = time.Now()
	c.WriteJSON(map[string]any{"type": "generate", "inputs": prompt, "max_new_tokens": spoken, "stream": true, "do_sample": false, "ignore_eos": true})
	n := 0
	for {
		last, err := next()
		if err != nil {
			return f, err
		}
		if n++; n == 1 {
			f.prompt = ms(begun)
			begun = time.Now()
		}
		if last || n == spoken {
			break
		}
	}
	if n < spoken {
		return f, fmt.Errorf("%d tokens of %d", n, spoken)
	}
	f.token = ms(begun) / (spoken - 1)
	return f, nil
}

// ready waits until the servers are known, and then has everybody connected.
func (s *sitting) ready(t *testing.T, model, prompt string) {
	t.Helper()
	var err error
	for late := time.Now().Add(30 * time.Second); time.Now().Before(late); <-time.After(200 * time.Millisecond) {
		if _, err = s.turn(model, prompt); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// What delay adds to a token, to a prompt and to the opening of a session through S servers
// whose connections are there: S+1 one-way delays, S+2 of them, and two round trips to the farthest.
// Loss of 1 % is shown beside it, and must not have anything collapse. A part of it is
// -run TestDelays/quic/40ms. The rows of bfloat16 (ADR 0028) show what half the bytes are worth over TCP.
func TestDelays(t *testing.T) {
	if os.Getenv("NATLAB") == "" {
		t.Skip("not proven: what delay adds to a token, since that is measured on a quiet machine (make natlab)")
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| transport | one way ms | loss | servers | token ms | prompt ms | open ms | token adds | prompt adds | open adds |\n|---|---|---|---|---|---|---|---|---|---|\n")
	type link struct {
		name   string
		oneWay time.Duration
		loss   float64
	}
	far, near, lossy := link{"40ms", 40 * time.Millisecond, 0}, link{"10ms", 10 * time.Millisecond, 0}, link{"loss", 10 * time.Millisecond, 0.01}
	for _, v := range []struct {
		transport, residual string
		links               []link
	}{{"tcp", "f32", []link{far, near, lossy}}, {"quic", "f32", []link{far, near, lossy}}, {"tcp", "bf16", []link{far}}} {
		transport := v.transport
		name := transport
		if v.residual != "f32" {
			name += " " + v.residual
		}
		t.Run(name, func(t *testing.T) {
			base := measure(t, 0, 0, transport, v.residual)
			for _, s := range layouts {
				fmt.Fprintf(&table, "| %s | 0 | 0 | %d | %.1f | %.1f | %.1f | | | |\n", name, s, base[s].token, base[s].prompt, base[s].open)
			}
			for _, c := range v.links {
				t.Run(c.name, func(t *testing.T) {
					own := late(t, c.oneWay)
					got := measure(t, c.oneWay, c.loss, transport, v.residual)
					for _, s := range layouts {
						f, b, way := got[s], base[s], float64(c.oneWay)/1e6
						// In one-way delays.
						adds := figures{open: (f.open - b.open) / way, prompt: (f.prompt - b.prompt) / way, token: (f.token - b.token) / way}
						fmt.Fprintf(&table, "| %s | %.0f | %.0f %% | %d | %.1f | %.1f | %.1f | %.2f | %.2f | %.2f |\n", name, way, 100*c.loss, s, f.token, f.prompt, f.open, adds.token, adds.prompt, adds.open)
						if most := bound(transport, v.residual, s, c.loss, own); adds.token > most.token || adds.prompt > most.prompt || adds.open > most.open {
							t.Errorf("%d servers: a token, a prompt and opening cost %.2f, %.2f and %.2f one-way delays more, want at most %.2f, %.2f and %.2f",
								s, adds.token, adds.prompt, adds.open, most.token, most.prompt, most.open)
						}
					}
				})
			}
		})
	}
	t.Logf("\n%s", table.String())
	os.WriteFile("../../artifacts/natlab-delays.md", []byte(table.String()), 0o644)
}

// slowStart is how many round trips more TCP takes for so many bytes on a connection that has been idle: it
// sends 10 segments (RFC 6928) of 1,428 bytes, the ends of TLS apart, and twice as many after each.
func slowStart(bytes int) (trips int) {
	const segment = 1428
	for window := 10 * segment; window < bytes; window *= 2 {
		bytes -= window
		trips++
	}
	return trips
}

// promptBytes are the rows of the prompt: of 64 float32, or as many bfloat16 in frames that are packed to
// 0.7 of that.
var promptBytes = map[string]int{"f32": rows * 256, "bf16": rows * 128 * 7 / 10}

// bound is the most that may be added through s servers, in one-way delays, of which a message of the
// laboratory itself is late by own. Over TCP there is slow start, and one hop may take a round trip more: once in ten
// seconds BBR sends 4 segments a round trip for 200 ms, to see the least of them (PROBE_RTT), and a prompt has more (docs/network.md).
func bound(transport, residual string, s int, loss, own float64) figures {
	if loss > 0 { // a lost packet may cost time-outs of 200 ms
		return figures{open: 60, prompt: 60, token: 10 * float64(s+1)}
	}
	f := figures{open: 4 * (1 + own), prompt: float64(s+2) * (1 + own), token: float64(s+1) * (1.1 + own)}
	if transport == "tcp" { // the stages' own waits are under way at the same time
		f.prompt = max(f.prompt, (float64(s+1)+2*float64(slowStart(promptBytes[residual])))*(1+own)) + 2
	}
	return f
}

// late is by how much a message comes late in the laboratory, as a share of the delay that it should
// have: the median of some datagrams, with what this machine does beside.
func late(t *testing.T, oneWay time.Duration) float64 {
	l := lab(t)
	defer l.Close()
	a := add(t, l, Spec{Name: "a", Addrs: []string{"20.9.0.1"}, Delay: oneWay / 2}).listen(t, "20.9.0.1:9")
	b := add(t, l, Spec{Name: "b", Addrs: []string{"20.9.0.2"}, Delay: oneWay / 2}).listen(t, "20.9.0.2:9")
	go func() {
		for buf := make([]byte, 16); ; {
			n, from, err := b.ReadFrom(buf)
			if err != nil {
				return
			}
			b.WriteTo(buf[:n], from)
		}
	}()
	var took []float64
	for range 25 {
		begun := time.Now()
		a.WriteTo([]byte("?"), b.LocalAddr())
		a.SetReadDeadline(begun.Add(5 * time.Second))
		if _, _, err := a.ReadFrom(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		took = append(took, float64(time.Since(begun))/2/float64(oneWay)-1)
	}
	own := median(took)
	t.Logf("a message is late by %.3f of its delay", own)
	return own
}

// layouts are the numbers of servers among which the blocks are divided.
var layouts = []int{1, 2, 4}

// measure takes the figures through 1, 2 and 4 servers.
func measure(t *testing.T, oneWay time.Duration, loss float64, transport, residual string) map[int]figures {
	w := newWorld(t, 0)
	defer w.Close()
	listen := map[string]string{"tcp": "/ip4/0.0.0.0/tcp/4001", "quic": "/ip4/0.0.0.0/udp/4001/quic-v1"}[transport]
	all := w.boots
	host := func(name string) *Host {
		w.number++
		return add(t, w.Lab, Spec{Name: name, Addrs: []string{fmt.Sprintf("20.3.0.%d", w.number)}, Delay: oneWay / 2, Loss: loss / 2})
	}
	common := []string{"--initial-peers", strings.Join(w.peers, ","), "--host-maddrs", listen, "--no-port-mapping"}
	sit := map[int]*sitting{}
	for _, s := range layouts {
		for i := range s {
			p := host(fmt.Sprint("server ", i, " of ", s)).run(t, append([]string{"serve", toy, "--model-name", fmt.Sprint("m", s), "--throughput", "100", "--http", "off", "--admin", "off",
				"--mean-block-selection-delay", "0", "--block-indices", fmt.Sprintf("%d:%d", i*8/s, (i+1)*8/s), "--skip-reachability-check"}, common...)...)
			all = append(all, p)
		}
	}
	for _, p := range all[len(w.boots):] {
		p.logged(t, "msg=ready")
	}
	for _, s := range layouts {
		h := host(fmt.Sprint("gateway of ", s))
		p := h.run(t, append([]string{"gateway", toy, "--model-name", fmt.Sprint("m", s), "--http", "127.0.0.1:8300", "--admin", "off", "--residual", residual}, common...)...)
		sit[s] = &sitting{host: h, http: "http://127.0.0.1:8300"}
		all = append(all, p)
	}
	for _, p := range all[len(all)-len(layouts):] {
		p.logged(t, "msg=ready")
	}
	out := map[int]figures{}
	text := strings.Repeat("zq", rows/2)
	for _, s := range layouts {
		model := fmt.Sprint("m", s)
		sit[s].ready(t, model, text)
		var open, prompt, token []float64
		for range turns {
			f, err := sit[s].turn(model, text)
			if err != nil {
				t.Fatal(err)
			}
			open, prompt, token = append(open, f.open), append(prompt, f.prompt), append(token, f.token)
		}
		pick := slices.Min[[]float64]
		if loss > 0 {
			pick = median
		}
		out[s] = figures{pick(open), pick(prompt), pick(token)}
	}
	for _, p := range all {
		p.kill()
	}
	return out
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
