package routes

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"whorl/api"
)

// Many large bodies followed by silence hold a bounded amount of memory; whoever is refused
// hears when to come again, and others are answered.
func TestSilentBodies(t *testing.T) {
	b := newBench(t, func(c *api.Config) { c.Exempt = []netip.Prefix{} }) // attacks of tests come from loopback
	srv := httptest.NewServer(b.api.Public())
	defer srv.Close()
	const size = 7 << 20
	piece := bytes.Repeat([]byte(" "), 1<<20)
	answers := make(chan string, 20)
	for range cap(answers) {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", size+1)
			for range size / len(piece) {
				conn.Write(piece)
			}
			head := make([]byte, 512) // who is not refused hears nothing while the test runs
			n, _ := io.ReadAtLeast(conn, head, 12)
			answers <- string(head[:n])
		}()
	}
	told := 0
	for range 10 {
		select {
		case got := <-answers:
			switch {
			case got == "": // cut off while it still wrote
			case strings.HasPrefix(got, "HTTP/1.1 429") && strings.Contains(got, "Retry-After:"):
				told++
			default:
				t.Errorf("answered with %q", got)
			}
		case <-time.After(patience):
			t.Fatal("fewer than ten are refused")
		}
	}
	if told == 0 {
		t.Error("nobody hears when to come again")
	}
	used := func() float64 {
		page := do(b.api.Public(), "GET", "/metrics", "").Body.String()
		_, line, _ := strings.Cut(page, `whorl_budget_used{budget="bytes of requests"} `)
		line, _, _ = strings.Cut(line, "\n")
		n, err := strconv.ParseFloat(line, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	eventually(t, func() bool { return used() >= 7<<20 })
	if n, most := used(), float64(27<<20); n > most {
		t.Errorf("one address holds %v bytes, of at most %v", n, most)
	}
	elsewhere := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, 9, 9)}}).DialContext}}
	res, err := elsewhere.Post(srv.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":1}`))
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("another user: %v %v", res, err)
	}
	res.Body.Close()
}
