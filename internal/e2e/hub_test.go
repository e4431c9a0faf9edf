//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"whorl/internal/fakehub"
)

// Machines without any file serve a model of the hub: the founder fetches and checks all of
// it, a server the blocks that it holds, a user what embeds and what chooses, and the answer
// is that of one machine with the file.
func TestHubSwarm(t *testing.T) {
	files, _ := filepath.Glob("../../models/*.gguf")
	if len(files) == 0 {
		t.Skip("not proven: a server fetches the bytes of its blocks alone: there is no model in models/; run make model")
	}
	model, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	hub := fakehub.New(t)
	hub.Put("someone/smol-GGUF", map[string][]byte{"smol-Q4_1.gguf": model, "README.md": []byte("a model")})
	t.Setenv("HF_ENDPOINT", hub.URL)
	t.Setenv("HOME", t.TempDir())
	const name = "someone/smol-GGUF:Q4_1"
	sent := hub.Sent("")
	fetched := func() (mib float64) {
		now := hub.Sent("")
		mib, sent = float64(now-sent)/(1<<20), now
		return mib
	}
	whole := float64(len(model)) / (1 << 20)

	// A gateway that is there before any server fetches the header alone, and waits.
	first := start(t, "bootstrap", "--new-swarm", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--admin", "127.0.0.1:0")
	gateway := launch(t, "gateway", name, "--initial-peers", first.Addrs[0], "--http", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")
	if !poll(patience, func() bool { return strings.Contains(gateway.log.String(), "waiting for a server of the model") }) {
		t.Fatalf("the gateway does not wait:\n%s", gateway.log)
	}
	if n := fetched(); n > 12 {
		t.Errorf("a gateway that waits fetched %.1f MiB of %.1f", n, whole)
	}

	common := []string{"--http", "off", "--admin", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--throughput", "1000", "--update-period", "1s", "--threads", "1"}
	founder := start(t, append([]string{"serve", name, "--initial-peers", first.Addrs[0], "--block-indices", "0:27"}, common...)...)
	if err := gateway.wait(t, patience); err != nil {
		t.Fatalf("the gateway: %v\n%s", err, gateway.log)
	}
	// The founder all of it, the gateway its head: embeddings and the norm.
	if n := fetched(); n < whole || n > whole*1.35 {
		t.Errorf("the founder of %.1f MiB and the gateway fetched %.1f", whole, n)
	}
	peers := []string{"--initial-peers", founder.Addrs[0]}
	start(t, slices.Concat([]string{"serve", name, "--block-indices", "27:30"}, peers, common)...)
	// Three of thirty blocks, one more to learn what a block takes, the header with its vocabulary.
	block := whole * 0.6 / 30
	if n := fetched(); n > 4*block+12 {
		t.Errorf("a server of 3 of 30 blocks fetched %.1f MiB of %.1f", n, whole)
	} else {
		t.Logf("a server of 3 of 30 blocks fetched %.1f MiB of %.1f", n, whole)
	}
	ask := func(model string, args ...string) []int32 {
		var got struct{ IDs []int32 }
		lastJSON(t, run(t, "", slices.Concat([]string{"generate", model, "--ids", "1,2,3,4,5", "--max-new-tokens", "12", "--ignore-eos", "--json"}, args)...), &got)
		return got.IDs
	}
	got := ask(name, peers...)
	if n := fetched(); n > whole*0.55 {
		t.Errorf("a user fetched %.1f MiB of %.1f", n, whole)
	} else {
		t.Logf("a user fetched %.1f MiB of %.1f", n, whole)
	}
	want := ask(files[0], "--local")
	equal(t, "ids through the swarm", got, want)

	// One word is all that a guest needs.
	var word struct {
		Invitation, Swarm, Model string
		Peers                    []string
		Secret                   bool
	}
	lastJSON(t, run(t, "", "invite", "--admin", founder.Admin, "--json"), &word)
	if word.Model != name || word.Swarm != "main" || word.Secret || len(word.Peers) == 0 {
		t.Errorf("%+v", word)
	}
	equal(t, "ids of a guest", ask(word.Invitation), want)
	guest := start(t, slices.Concat([]string{"join", word.Invitation, "--block-indices", "0:27"}, common)...)
	founder.kill()
	equal(t, "ids once the founder is gone and a guest serves", ask(name, "--initial-peers", guest.Addrs[0]), want)
	spoilt := word.Invitation[:40] + "a" + word.Invitation[41:]
	if r := run(t, "", "join", spoilt); r.code != 2 {
		t.Errorf("a mistyped invitation: exit %d, %s", r.code, r.stderr)
	}
}
