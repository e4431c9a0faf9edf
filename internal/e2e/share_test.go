//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// figure reads one number of a node's metrics.
func (n *node) figure(t *testing.T, name string) float64 {
	t.Helper()
	r, err := http.Get(n.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(body)
	if m == nil {
		t.Fatalf("no %s among the metrics of %s", name, n.Admin)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// home gives what follows folders of its own: nothing of an earlier command is there.
func home(t *testing.T) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("HF_HUB_OFFLINE", "1") // no hub helps
}

// One machine has the model's file; all others start from an invitation and empty folders. Each
// fetches only the bytes that it computes with, the ids are those of one machine, and when
// the first one dies those who came pass on what they hold.
func TestShareSwarm(t *testing.T) {
	files, _ := filepath.Glob("../../models/*.gguf")
	if len(files) == 0 {
		t.Skip("not proven: weights come from the swarm: there is no model in models/; run make model")
	}
	st, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	whole := float64(st.Size()) / mib
	common := []string{"--http", "off", "--admin", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--throughput", "1000", "--update-period", "1s", "--threads", "1", "--mean-block-selection-delay", "0"}
	var want struct{ IDs []int32 }
	answer := []string{"--ids", "1,2,3,4,5", "--max-new-tokens", "12", "--ignore-eos", "--json"}
	lastJSON(t, run(t, "", slices.Concat([]string{"generate", files[0], "--local"}, answer)...), &want)

	home(t)
	a := start(t, slices.Concat([]string{"serve", files[0], "--new-swarm", "--block-indices", "0:30"}, common)...)
	var word struct{ Invitation string }
	lastJSON(t, run(t, "", "invite", "--admin", a.Admin, "--json"), &word)
	holders, gave := []*node{a}, 0.0
	sent := func() float64 {
		now := 0.0
		for _, h := range holders {
			now += h.figure(t, "whorl_share_sent_bytes_total") / mib
		}
		n := now - gave
		gave = now
		return n
	}

	// A server of 3 of 30 blocks fetches those, one more to learn what a block takes, and the
	// header with its vocabulary.
	home(t)
	cache := t.TempDir()
	small := start(t, slices.Concat([]string{"join", word.Invitation, "--block-indices", "27:30", "--cache-dir", cache}, common)...)
	block := whole * 0.6 / 30
	if n := sent(); n > 4*block+12 || n < 3*block {
		t.Errorf("a server of 3 of 30 blocks fetched %.1f MiB of %.1f", n, whole)
	} else {
		t.Logf("a server of 3 of 30 blocks fetched %.1f MiB of %.1f", n, whole)
	}

	// With other blocks it fetches the new ones alone.
	small.kill()
	small = start(t, slices.Concat([]string{"join", word.Invitation, "--block-indices", "25:30", "--cache-dir", cache}, common)...)
	if n := sent(); n > 2*block+3 || n < block {
		t.Errorf("for 2 more of 30 blocks it fetched %.1f MiB of %.1f", n, whole)
	} else {
		t.Logf("for 2 more of 30 blocks it fetched %.1f MiB of %.1f", n, whole)
	}
	holders = append(holders, small)

	// Somebody who chats fetches what embeds and what chooses.
	home(t)
	r := run(t, "Hello\n", "chat", word.Invitation, "--max-new-tokens", "4")
	if r.code != 0 || strings.TrimSpace(r.stdout) == "" {
		t.Fatalf("chat: exit %d, %q, %s", r.code, r.stdout, r.stderr)
	}
	if n := sent(); n > whole*0.55 || n < 5 {
		t.Errorf("a user fetched %.1f MiB of %.1f", n, whole)
	} else {
		t.Logf("a user fetched %.1f MiB of %.1f", n, whole)
	}

	// A server of all, with its own gateway, so that all of the file is here.
	home(t)
	served := slices.Clone(common)
	served[1] = "127.0.0.1:0"
	b := start(t, slices.Concat([]string{"join", word.Invitation, "--block-indices", "0:30"}, served)...)
	if n := sent(); n > whole*1.3 || n < whole-2 { // what one holder is slow with is asked of another too
		t.Errorf("a server of all fetched %.1f MiB of %.1f", n, whole)
	}
	var ids struct{ IDs []int32 }
	ask := func(what string) {
		t.Helper()
		home(t)
		lastJSON(t, run(t, "", slices.Concat([]string{"generate", word.Invitation}, answer)...), &ids)
		equal(t, what, ids.IDs, want.IDs)
	}
	ask("ids while the founder is there")

	// The founder dies; a newcomer joins by an invitation of who came after it.
	a.kill()
	small.kill()
	lastJSON(t, run(t, "", "invite", "--admin", b.Admin, "--json"), &word)
	home(t)
	d := start(t, slices.Concat([]string{"join", word.Invitation, "--block-indices", "0:30"}, common)...)
	if n := d.figure(t, "whorl_share_received_bytes_total") / mib; n > whole || n < whole*0.5 {
		t.Errorf("a server of all blocks, without the head, fetched %.1f MiB of %.1f", n, whole)
	} else {
		t.Logf("a server of all blocks, without the head, fetched %.1f MiB of %.1f", n, whole)
	}
	ask("ids once the founder is gone")
	got := b.node(t)
	if got["loading"] != nil {
		t.Errorf("a node that has all it needs tells of loading: %v", got["loading"])
	}
}

// A guest that is killed at any moment leaves nothing wrong behind, and of what it had only the
// last few MiB are fetched again.
func TestKilledWhileJoining(t *testing.T) {
	files, _ := filepath.Glob("../../models/*.gguf")
	if len(files) == 0 {
		t.Skip("not proven: a guest that is killed fetches little twice: there is no model in models/; run make model")
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	common := []string{"--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--throughput", "1000", "--update-period", "1s", "--threads", "1", "--mean-block-selection-delay", "0", "--block-indices", "0:30", "--attn-cache-tokens", "1024"}
	home(t)
	a := start(t, slices.Concat([]string{"serve", files[0], "--new-swarm", "--max-upload", "20MB"}, common)...)
	var word struct{ Invitation string }
	lastJSON(t, run(t, "", "invite", "--admin", a.Admin, "--json"), &word)
	home(t)
	cache := t.TempDir()
	join := slices.Concat([]string{"join", word.Invitation, "--cache-dir", cache}, common)
	const kills = 20
	for range kills {
		n := launch(t, join...)
		<-time.After(time.Duration(200+rand.IntN(500)) * time.Millisecond)
		n.kill()
	}
	start(t, join...)
	sent := a.figure(t, "whorl_share_sent_bytes_total")
	// What was under way, and what was written down and not yet in the map.
	const twice = 11 << 20
	if most := float64(len(whole) + kills*twice); sent > most || sent < float64(len(whole)) {
		t.Errorf("%.1f MiB were sent of %.1f", sent/(1<<20), float64(len(whole))/(1<<20))
	} else {
		t.Logf("%d kills: %.2f of the bytes were sent", kills, sent/float64(len(whole)))
	}
	blobs, _ := filepath.Glob(filepath.Join(cache, "hub", "models--whorl--*", "blobs", "*"))
	if len(blobs) != 1 {
		t.Fatalf("whole files: %v", blobs)
	}
	if got, err := os.ReadFile(blobs[0]); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("the file that came is another (%v)", err)
	}
}

// node is what a node tells of itself.
func (n *node) node(t *testing.T) map[string]any {
	t.Helper()
	r, err := http.Get(n.Admin + "/api/v1/node")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}
