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
			conn.SetReadDeadline(time.Now().Add(time.Second))
			head := make([]byte, 512)
			n, _ := io.ReadAtLeast(conn, head, 12)
			answers <- string(head[:n])
		}()
	}
	refused := 0
	for range cap(answers) {
		switch got := <-answers; {
		case got == "":
		case strings.HasPrefix(got, "HTTP/1.1 429") && strings.Contains(got, "Retry-After:"):
			refused++
		default:
			t.Errorf("answered with %q", got)
		}
	}
	page := do(b.api.Public(), "GET", "/metrics", "").Body.String()
	_, line, _ := strings.Cut(page, `whorl_budget_used{budget="bytes of requests"} `)
	line, _, _ = strings.Cut(line, "\n")
	used, err := strconv.ParseFloat(line, 64)
	if most := float64(27 << 20); err != nil || used < 7<<20 || used > most || refused < 10 {
		t.Errorf("one address holds %v bytes, of at most %v; %d of its requests were refused, %v", used, most, refused, err)
	}
	elsewhere := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, 9, 9)}}).DialContext}}
	res, err := elsewhere.Post(srv.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":1}`))
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("another user: %v %v", res, err)
	}
	res.Body.Close()
}
