package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"whorl/internal/journal"
)

// An operator sees and controls a node by commands, as by curl.
func TestOperator(t *testing.T) {
	n := startRun(t, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--throughput", "100", "--public-name", "me")
	b := startRun(t, "bootstrap", "--initial-peers", n.Addrs[0])
	if b.Admin == "" {
		t.Error("a bootstrap has no admin listener")
	}
	for _, c := range []struct {
		args string
		want string // a pattern for what is printed
	}{
		{"node", `(?s)^peer +12D3.*\nname +me\nroles +server, gateway\nstate +online\n.*blocks +0:8 of 8\n`},
		{"node --json", `^{"peer_id":"12D3`},
		{"node cache", `(?s)^{\n  "total_tokens": \d+,`},
		{"node config", `(?s)^NAME +VALUE +SOURCE +NEEDS RESTART\n.*\nlog-level +info +default +no\n.*\nthroughput +100 +flag +no\n`},
		{"node config public-name=you,me max-sessions=7 throughput=55.5 peer-cache=0.25 session-timeout=90 max-upload=2MB", `(?s)\nmax-sessions +7 +api +no\n.*\nsession-timeout +90 +api +no\n`},
		{"node", `(?s)\nname +you,me\n.*tokens/s +55.5\n`},
		{"node config public-name= max-sessions= throughput= peer-cache= session-timeout= max-upload=", `\npublic-name +me +flag +no\n`},
		{"node config log-level=debug", `\nlog-level +debug +api +no\n`},
		{"node config log-level=", `\nlog-level +info +default +no\n`},
		{"node drain --reason disk --deadline 2s --wait 20s", `^ID +KIND +STATE .*\nop_\S+ +drain +done `},
		{"node", `(?m)^state +draining$`},
		{"node resume", `\nop_\S+ +resume +done `},
		{"node", `(?m)^state +online$`},
		{"node rebalance --dry-run", `"do": "stay",`},
		{"node rebalance --wait 10s --json", `"result":{"do":"stay",.*"state":"done"`},
		{"node benchmark --for 100ms --json", `"kind":"benchmark",.*"progress":.*"result":{"span":{"start":0,"end":8},"rates":{"inference_rps":\d`},
		{"node config throughput=auto", `\nthroughput +auto +api +no\n`}, // it has been measured now
		{"node", `tokens/s +\d`},
		{"node config throughput=", `\nthroughput +100 +flag +no\n`},
		{"node restart --wait 20s", `\nop_\S+ +restart +done `},
		{"ops", `^ID +KIND +STATE +BEGAN +TOOK +OF +PROGRESS +ERROR\nop_\S+ +restart +done `},
		{"ops list --json", `^{"items":\[{"began":`},
		{"blocks", `^BLOCK +STATE.*\n0 +loaded `},
		{"blocks 3", `(?s)^{\n  "index": 3,\n`},
		{"sessions", `^ID +ROLE .*\n$`},
		{"peers", `\n` + b.PeerID + ` `},
		{"peers ping " + b.PeerID, `"rtt_ms": \d`},
		{"peers dial " + b.Addrs[0], `"peer_id": "` + b.PeerID},
		{"peers ban " + b.PeerID + " --for 90m --reason test", `^banned for 1h30m0s\n$`},
		{"peers standings", b.PeerID + ` +banned +\S+ +.*: test\n`},
		{"peers unban " + b.PeerID, `^nothing is held against it any more\n$`},
		{"peers drop " + b.PeerID + " --json", `^{}\n$`},
		{"swarm", `^NAME +STATE.*\ntoy +healthy +8 +1 +- +100.0\n$`},
		{"swarm model toy", `"verdict": "`},
		{"swarm coverage toy", `(?s)"blocks": \[\n`},
		{"swarm servers --model toy", `(?m)^` + n.PeerID + ` +toy +online +0:8 +100.0 .* me$`},
		{"swarm server " + n.PeerID, `\n` + n.PeerID + ` `},
		{"swarm history toy --from 1h", `^AT +SERVERS +HOLDERS +MISSING +TOK/S\n`},
		{"swarm route toy --positions 32", `(?s)^PEER +BLOCKS +LINK MS .*\n` + n.PeerID + ` +0:8 .* chosen\n.*a token takes `},
		{"swarm events", `^AT +EVENT +MODEL +PEER +BLOCKS +DETAIL\n`},
		{"logs --level warn", ``},
		{"logs --json", `"kind":"info","data":{"message":"ready"`},
	} {
		got := whorl(t, "", nil, append(strings.Fields(c.args), "--admin", n.Admin)...).ok(t).stdout
		if !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("whorl %s prints\n%s\nwant %s", c.args, got, c.want)
		}
	}
	for _, c := range []struct {
		args string
		code int
		err  string
	}{
		{"blocks 99", 1, "refuses: this node does not hold block 99"},
		{"sessions end nobody", 1, "refuses: this node has no session nobody"},
		{"node config port=1", 1, "port cannot change while the node runs: start it with another --port"},
		{"node config port", 2, "want NAME=VALUE"},
		{"node config max-sessions=0", 1, "max-sessions: 0: want at least 1"},
		{"node config peer-cache=2", 1, "peer-cache: 2: want above 0 and at most 1"},
		{"node config step-timeout=0", 1, `step-timeout: "0": want more than 0`},
		{"node config throughput=eval", 1, `"eval" says what to do at the start`},
		{"node config public-name=" + strings.Repeat("x", 300), 1, "public-name: has 300 bytes"},
		{"node config allow-adapters=a,,b", 1, "allow-adapters: "},
		{"ops show op_x", 1, `this node has no operation "op_x"`},
		{"ops cancel op_x", 1, `this node has no operation "op_x"`},
		{"node rebalance --to 4:99 --wait 10s", 1, "refuses: blocks 4:99: toy has blocks 0:8"},
		{"node restart --wait 1h", 2, "--wait 1h0m0s: want at most 5m0s"},
		{"peers dial 10.0.0.1", 1, "want /ip4/HOST/tcp/PORT/p2p/ID"},
		{"peers ban x --for 1ms", 2, "want at least 1s"},
		{"swarm model nothing", 1, `the swarm has no model "nothing"`},
		{"events --since x", 1, `"x" is not the id of a line`},
		{"logs --level loud", 1, "want debug, info, warn or error"},
	} {
		if r := whorl(t, "", nil, append(strings.Fields(c.args), "--admin", n.Admin)...); r.code != c.code || !strings.Contains(r.err, c.err) {
			t.Errorf("whorl %s: code %d, %s", c.args, r.code, r.err)
		}
	}
	if r := whorl(t, "", nil, "node", "--admin", "127.0.0.1:1"); r.code != 1 || !strings.Contains(r.err, "no node answers at http://127.0.0.1:1") {
		t.Errorf("nobody there: %d, %s", r.code, r.err)
	}
	if r := whorl(t, "", nil, "node", "--admin", n.HTTP); r.code != 0 {
		t.Errorf("the public listener tells of the node too: %s", r.err)
	}
	if got := whorl(t, "", nil, "__complete", "peers", "ping", "--admin", n.Admin, "").ok(t).stdout; !strings.Contains(got, b.PeerID) {
		t.Errorf("completion of peers:\n%s", got)
	}
}

// Events are there for who looks, and come to who follows.
func TestFollowEvents(t *testing.T) {
	n := startRun(t, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--throughput", "100")
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan int)
	go func() {
		var out bytes.Buffer
		done <- run(ctx, []string{"events", "-f", "--json", "--types", "node.state,session", "--admin", n.Admin}, world{strings.NewReader(""), w, &out, func() []string { return nil }})
	}()
	lines := json.NewDecoder(r)
	next := func(kind string) (l journal.Line) {
		for l.Kind != kind {
			if err := lines.Decode(&l); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	whorl(t, "", nil, "node", "drain", "--admin", n.Admin).ok(t)
	if l := next("node.state"); !slices.Contains([]string{`{"from":"online","to":"draining"}`, `{"from":"joining","to":"draining"}`}, string(l.Data)) {
		// the node may have come up between two looks
		if l = next("node.state"); string(l.Data) != `{"from":"online","to":"draining"}` {
			t.Errorf("%s", l.Data)
		}
	}
	cancel()
	r.Close()
	if code := <-done; code != 0 {
		t.Errorf("following ends with code %d", code)
	}
}

// Every line of the page about control does what it says.
func TestControlPage(t *testing.T) {
	for _, tool := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the lines of docs/howto/control.md were not run: %v", err)
		}
	}
	page, err := os.ReadFile("../../docs/howto/control.md")
	if err != nil {
		t.Fatal(err)
	}
	n := startRun(t, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--throughput", "100")
	b := startRun(t, "serve", toy, "--initial-peers", n.Addrs[0], "--http", "127.0.0.1:0", "--throughput", "100")
	session := func() string { // one that waits for its next request
		conn, _, err := websocket.DefaultDialer.Dial(strings.Replace(n.HTTP, "http", "ws", 1)+"/api/v2/generate", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		for _, msg := range []map[string]any{{"type": "open_inference_session", "model": "toy", "max_length": 16}, {"type": "generate", "inputs": "a", "max_new_tokens": 1}} {
			if err := conn.WriteJSON(msg); err != nil {
				t.Fatal(err)
			}
			if _, reply, err := conn.ReadMessage(); err != nil || !strings.Contains(string(reply), `"ok":true`) {
				t.Fatalf("%v: %s", err, reply)
			}
		}
		var list struct{ Items []struct{ ID string } }
		request(t, "GET", n.Admin+"/api/v1/sessions", "", 200, &list)
		if len(list.Items) == 0 {
			t.Fatal("there is no session")
		}
		return list.Items[0].ID
	}()
	var begun struct{ ID string }
	request(t, "POST", n.Admin+"/api/v1/node/resume", "", 202, &begun)
	operation := begun.ID
	folder, err := filepath.Abs(filepath.Join(adapterDir, "toy-list"))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.NewReplacer("localhost:8301", strings.TrimPrefix(n.Admin, "http://"), "SESSION", session, "PEER", b.PeerID, "ADDR", b.Addrs[0], "MODEL", "toy", "OPERATION", operation, "FOLDER", folder, "ADAPTER", "toy-list")
	count := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "curl ") {
			continue
		}
		count++
		command, _, _ := strings.Cut(strings.TrimSpace(line), "  #")
		stream := strings.Contains(command, "-sfN")
		try := func(seconds int) ([]byte, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			line := command
			if stream { // whoever follows sees before anything happens that it is connected
				line = "(" + strings.Replace(command, "curl", fmt.Sprint("curl --max-time ", seconds), 1) + " || [ $? = 28 ]) | grep -q '^: '"
			}
			return exec.CommandContext(ctx, "sh", "-c", words.Replace(line)).CombinedOutput()
		}
		out, err := try(1)
		if err != nil && stream { // on a machine that has much to do
			out, err = try(60)
		}
		if err != nil || !stream && len(out) == 0 && !strings.Contains(command, "DELETE") && !strings.Contains(command, "PUT") && !strings.Contains(command, "select") {
			t.Errorf("%s: %v: %s", strings.TrimSpace(line), err, out)
		}
	}
	if count < 30 {
		t.Errorf("the page has %d lines", count)
	}
	if code := n.stop(); code != 0 {
		t.Errorf("shut down with code %d", code)
	}
}
