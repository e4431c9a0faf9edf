package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Keys are made beside a node and by it, open it until they are removed, and are nowhere in
// what it keeps or says.
func TestKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	book := []string{"--keys", path}
	first := strings.TrimSpace(whorl(t, "", nil, append(book, "keys", "add", "first", "--scope", "infer,read", "--expires", "90d", "--requests", "100")...).ok(t).stdout)
	n := startRun(t, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--throughput", "100", "--keys", path)
	ask := func(key string) int {
		r, err := http.NewRequestWithContext(t.Context(), "GET", n.HTTP+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	var second struct{ ID, Name, Secret string }
	made := whorl(t, "", nil, "keys", "add", "second", "--tokens", "500", "--answers", "2", "--json", "--admin", n.Admin).ok(t).stdout
	if err := json.Unmarshal([]byte(made), &second); err != nil || second.Name != "second" || !strings.HasPrefix(second.ID, "key_") {
		t.Fatal(err, made)
	}
	for key, want := range map[string]int{first: 200, second.Secret: 200, "": 401, "whorl_NOBODY": 401} {
		if got := ask(key); got != want {
			t.Errorf("%q: status %d, want %d", key, got, want)
		}
	}
	for _, c := range []struct {
		args string
		want string // a pattern for what is printed
	}{
		{"keys --admin " + n.Admin, `^NAME +ID +SCOPES +EXPIRES +USED +REQUESTS +TOKENS\nfirst +key_\w+ +infer,read +20\S+Z +20\S+Z +1 +0\nsecond +` + second.ID + ` +infer +- +20\S+Z +1 +0\n$`},
		{"keys list --keys " + path, `^NAME +ID +SCOPES +EXPIRES +USED\nfirst +key_\w+ +infer,read +20\S+Z +`},
		{"keys list --json --keys " + path, `^{"items":\[{"id":"key_\w+","name":"first","scopes":\["infer","read"\],"requests_per_minute":100,"created"`},
		{"keys rm second --admin " + n.Admin, `^removed\n$`},
	} {
		got := whorl(t, "", nil, strings.Fields(c.args)...).ok(t).stdout
		if !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("whorl %s prints\n%s\nwant %s", c.args, got, c.want)
		}
	}
	if got := ask(second.Secret); got != 401 {
		t.Errorf("after it was removed: status %d", got)
	}
	if text := whorl(t, "", nil, "logs", "--json", "--admin", n.Admin).ok(t).stdout; strings.Contains(text, second.Secret) || strings.Contains(text, first) {
		t.Error("the log has a secret")
	}
	if raw, err := os.ReadFile(path); err != nil || strings.Contains(string(raw), first) {
		t.Errorf("%v: %s", err, raw)
	}
	for _, c := range []struct {
		args string
		code int
		err  string
	}{
		{"keys add first --keys " + path, 1, `"first": there is a key of that name`},
		{"keys add first --admin " + n.Admin, 1, `refuses: "first": there is a key of that name`},
		{"keys add x --scope root --keys " + path, 2, `the scope "root" is unknown: want some of read, infer, operate, admin`},
		{"keys add x --expires tomorrow --keys " + path, 2, "such as 90d or 12h"},
		{"keys rm nobody --keys " + path, 1, `there is no key "nobody"`},
		{"keys rm nobody --admin " + n.Admin, 1, `refuses: there is no key "nobody"`},
		{"keys --keys database", 2, "give --database-url too"},
		{"keys --keys /nowhere/at/all", 2, "must exist"},
		{"gateway --http 0.0.0.0:0 --new-swarm", 2, "give a token or keys"},
	} {
		got := whorl(t, "", nil, strings.Fields(c.args)...)
		if got.code != c.code || !strings.Contains(got.err, c.err) {
			t.Errorf("whorl %s: exit %d, %s, want %d, %s", c.args, got.code, got.err, c.code, c.err)
		}
	}
}

func TestUntilWhen(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"": "", "1d": "2026-02-01T12:00:00Z", "90d": "2026-05-01T12:00:00Z", "12h": "2026-02-01T00:00:00Z", "1h30m": "2026-01-31T13:30:00Z", "2027-01-31T12:00:00Z": "2027-01-31T12:00:00Z",
		"0d": "bad", "-1d": "bad", "d": "bad", "1d2": "bad", "-1h": "bad", "99999999d": "bad", "2027": "bad",
	} {
		got := "bad"
		if at, err := untilWhen(text, now); err == nil && at.IsZero() {
			got = ""
		} else if err == nil {
			got = at.Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
