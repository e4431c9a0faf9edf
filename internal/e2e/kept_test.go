//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"whorl/internal/pgtest"
)

// A conversation of Responses goes on after its gateway has ended, and at another gateway of the same
// database; a key reads what was asked with it alone. Told not to, a gateway writes none down.
func TestResponsesOutliveTheirGateway(t *testing.T) {
	pg := pgtest.Start(t)
	book := filepath.Join(t.TempDir(), "keys.json")
	secret := map[string]string{}
	for _, name := range []string{"ann", "bob"} {
		made := run(t, "", "keys", "add", name, "--keys", book)
		if secret[name] = strings.TrimSpace(made.stdout); made.code != 0 {
			t.Fatal(made)
		}
	}
	s := spawn(t, []string{"0:8"})
	database := pg.Database(t)
	gateway := func(more ...string) *node {
		return start(t, append([]string{"gateway", toy, "--initial-peers", s.peers(), "--http", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--keys", book, "--database-url", database}, more...)...)
	}
	type response struct {
		ID    string
		Store bool
		Usage struct {
			Input int `json:"input_tokens"`
		}
		Output []struct{ Content []struct{ Text string } }
	}
	ask := func(n *node, who, method, path, body string) (r response, code int) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, n.HTTP+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+secret[who])
		q.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		raw, err := io.ReadAll(a.Body)
		if err == nil && a.StatusCode == 200 {
			err = json.Unmarshal(raw, &r)
		}
		if err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, raw)
		}
		return r, a.StatusCode
	}
	const create = "/v1/responses"
	goOn := func(id string) string {
		return fmt.Sprintf(`{"input":"And then?","previous_response_id":%q,"max_output_tokens":8,"temperature":0,"store":false}`, id)
	}
	first := gateway()
	one, _ := ask(first, "ann", "POST", create, `{"input":"Once upon a time","max_output_tokens":8,"temperature":0}`)
	want, code := ask(first, "ann", "POST", create, goOn(one.ID))
	if code != 200 || want.Usage.Input <= one.Usage.Input || !one.Store || want.Store {
		t.Fatalf("status %d: %+v after %+v", code, want, one)
	}
	first.signal(syscall.SIGTERM)
	<-first.done
	for name, n := range map[string]*node{"started anew": gateway(), "another one": gateway()} {
		got, code := ask(n, "ann", "POST", create, goOn(one.ID))
		if code != 200 || got.Usage != want.Usage || fmt.Sprint(got.Output) != fmt.Sprint(want.Output) {
			t.Errorf("%s: status %d: %+v, want %+v", name, code, got, want)
		}
		for _, c := range []struct {
			who, method, path, body string
			code                    int
		}{
			{"ann", "GET", create + "/" + one.ID, "", 200}, {"bob", "GET", create + "/" + one.ID, "", 404}, {"bob", "DELETE", create + "/" + one.ID, "", 404},
			{"bob", "POST", create, goOn(one.ID), 400}, {"ann", "GET", create + "/" + want.ID, "", 404},
		} {
			if _, code := ask(n, c.who, c.method, c.path, c.body); code != c.code {
				t.Errorf("%s: %s: %s %s: status %d, want %d", name, c.who, c.method, c.path, code, c.code)
			}
		}
	}
	silent := gateway("--responses", "off")
	if r, code := ask(silent, "ann", "POST", create, `{"input":"Once","max_output_tokens":2}`); code != 200 || r.Store {
		t.Errorf("with --responses off: status %d: %+v", code, r)
	}
}
