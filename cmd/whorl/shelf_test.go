package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"whorl/internal/wiring"
)

// listedModel is a row of /v1/models.
type listedModel struct {
	ID      string
	State   string
	Root    string
	Context int `json:"context_length"`
}

func modelsOf(t *testing.T, n *running) map[string]listedModel {
	t.Helper()
	var list struct{ Data []listedModel }
	request(t, "GET", n.HTTP+"/v1/models", "", 200, &list)
	out := map[string]listedModel{}
	for _, m := range list.Data {
		out[m.ID] = m
	}
	return out
}

// completed asks a gateway to go on with ids.
func completed(t *testing.T, n *running, model string, status int) []int32 {
	t.Helper()
	var got struct {
		Model   string
		Choices []struct {
			IDs []int32 `json:"token_ids"`
		}
	}
	body := fmt.Sprintf(`{"model":%q,"prompt":[1,2,3],"max_tokens":8,"temperature":0,"ignore_eos":true,"return_token_ids":true}`, model)
	if status != 200 {
		request(t, "POST", n.HTTP+"/v1/completions", body, status, nil)
		return nil
	}
	request(t, "POST", n.HTTP+"/v1/completions", body, 200, &got)
	if len(got.Choices) != 1 {
		t.Fatalf("%s: %+v", model, got)
	}
	return got.Choices[0].IDs
}

// A gateway without a model offers what its swarm serves. Of each model it fetches what it computes
// when somebody asks first, and gives up the one used longest ago when the room is needed.
func TestGatewayOfTheSwarm(t *testing.T) {
	args := []string{"--admin", "127.0.0.1:0", "--http", wiring.Off, "--mean-block-selection-delay", "0", "--throughput", "100", "--update-period", "1s"}
	founder := startRun(t, append([]string{"serve", toy, "--new-swarm"}, args...)...)
	other := startRun(t, append([]string{"serve", toyFolder, "--initial-peers", founder.Addrs[0]}, args...)...)
	gateway := func(more ...string) *running {
		n := startRunEnv(t, []string{"HOME=" + t.TempDir()}, append([]string{"gateway", "--initial-peers", founder.Addrs[0], "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--cache-dir", t.TempDir(), "--alias", "small=scaled"}, more...)...)
		if !eventually(func() bool {
			m := modelsOf(t, n)
			return m["toy"].State == "healthy" && m["scaled"].State == "healthy"
		}) {
			t.Fatalf("it offers %+v", modelsOf(t, n))
		}
		return n
	}
	local := func(model string) (ids []int32) {
		var got answerObject
		whorl(t, "", nil, "generate", model, "--local", "--ids", "1,2,3", "--max-new-tokens", "8", "--ignore-eos", "--json").last(t, &got)
		return got.IDs
	}
	want := map[string][]int32{"toy": local(toy), "scaled": local(toyFolder)}

	n := gateway()
	if m := modelsOf(t, n); m["toy"].Context <= 0 || m["small"].Root != "scaled" || m["small"].Context != m["scaled"].Context || len(m) != 3 {
		t.Errorf("%+v", m)
	}
	if got := figureOf(t, n, "whorl_share_received_bytes_total"); got != 0 {
		t.Errorf("%v bytes were fetched before anybody asked", got)
	}
	for name, ids := range want {
		if got := completed(t, n, name, 200); !slices.Equal(got, ids) {
			t.Errorf("%s: %v, want %v", name, got, ids)
		}
	}
	if got := completed(t, n, "small", 200); !slices.Equal(got, want["scaled"]) {
		t.Errorf("by an alias: %v", got)
	}
	if m := modelsOf(t, n); m["toy"].Context <= 0 || m["scaled"].Context <= 0 {
		t.Errorf("once they are here: %+v", m)
	}
	completed(t, n, "nobody/else", 404)
	var largest int64
	kinds := func(n *running) (out []string) {
		var list struct {
			Items []struct {
				Kind string
				Data struct {
					Model string
					Bytes int64
				}
			}
		}
		request(t, "GET", n.Admin+"/api/v1/events?wait=0s&types=model", "", 200, &list)
		for _, e := range list.Items {
			largest = max(largest, e.Data.Bytes)
			if strings.HasPrefix(e.Kind, "model.l") || e.Kind == "model.unloaded" {
				out = append(out, e.Kind+" "+e.Data.Model)
			}
		}
		return out
	}
	if got := kinds(n); len(got) != 4 || !slices.Contains(got, "model.loading toy") || !slices.Contains(got, "model.loaded scaled") {
		t.Errorf("events: %q", got)
	}
	r, err := http.Get(n.HTTP + "/play")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	if !strings.Contains(page, `<option value="toy"`) || !strings.Contains(page, `<option value="scaled"`) {
		t.Error("the playground offers no choice")
	}

	// Room for one at a time: the other one goes, and comes again from the disk.
	tight := gateway("--memory", fmt.Sprint(largest))
	for range 2 {
		for name, ids := range want {
			if got := completed(t, tight, name, 200); !slices.Equal(got, ids) {
				t.Errorf("%s in little memory: %v, want %v", name, got, ids)
			}
		}
	}
	if got := kinds(tight); !slices.Contains(got, "model.unloaded toy") || !slices.Contains(got, "model.unloaded scaled") {
		t.Errorf("events: %q", got)
	}
	none := gateway("--memory", "1KiB")
	completed(t, none, "toy", 503)

	// The trouble of one is not the other's.
	other.stop()
	if !eventually(func() bool { return modelsOf(t, n)["scaled"].State != "healthy" }) {
		t.Error("a model without servers counts as healthy")
	}
	if got := completed(t, n, "toy", 200); !slices.Equal(got, want["toy"]) {
		t.Errorf("toy, while the other model is away: %v", got)
	}
	request(t, "GET", n.HTTP+"/readyz", "", 200, nil)
}

// A gateway of several models that are named: one whose servers are not there yet keeps nobody
// from the others, and is offered once they are.
func TestGatewayOfNamedModels(t *testing.T) {
	args := []string{"--admin", "127.0.0.1:0", "--http", wiring.Off, "--mean-block-selection-delay", "0", "--throughput", "100", "--update-period", "1s"}
	founder := startRun(t, append([]string{"serve", toy, "--new-swarm"}, args...)...)
	gateway := []string{"gateway", toy, toyFolder, "--initial-peers", founder.Addrs[0], "--host-maddrs", loopback}
	n := startRun(t, append(gateway[:len(gateway)-2:len(gateway)-2], "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0")...)
	if !eventually(func() bool { return modelsOf(t, n)["toy"].State == "healthy" }) {
		t.Fatalf("it offers %+v", modelsOf(t, n))
	}
	completed(t, n, "toy", 200)
	request(t, "GET", n.HTTP+"/readyz", "", 200, nil)
	startRun(t, append([]string{"serve", toyFolder, "--initial-peers", founder.Addrs[0]}, args...)...)
	if !eventually(func() bool { return modelsOf(t, n)["scaled"].State == "healthy" }) {
		t.Fatalf("later it offers %+v", modelsOf(t, n))
	}
	if a, b := completed(t, n, "toy", 200), completed(t, n, "scaled", 200); len(a) != 8 || len(b) != 8 || slices.Equal(a, b) {
		t.Errorf("%v and %v", a, b)
	}
	for more, says := range map[string]string{"--model-name x": "--model-name names one model", toy: "two of the models are named toy", "/nowhere": "nowhere", "--alias x": "is no NAME=MODEL"} {
		if r := whorl(t, "", nil, append(gateway, strings.Fields(more)...)...); r.code != exitUsage || !strings.Contains(r.err, says) {
			t.Errorf("%s: exit %d, %s", more, r.code, r.err)
		}
	}
}

// Many ask for two models at once where there is room for one: each gets the right answer.
func TestShelfInUse(t *testing.T) {
	args := []string{"--admin", "127.0.0.1:0", "--http", wiring.Off, "--mean-block-selection-delay", "0", "--throughput", "100", "--update-period", "1s"}
	founder := startRun(t, append([]string{"serve", toy, "--new-swarm"}, args...)...)
	startRun(t, append([]string{"serve", toyFolder, "--initial-peers", founder.Addrs[0]}, args...)...)
	n := startRunEnv(t, []string{"HOME=" + t.TempDir()}, "gateway", "--initial-peers", founder.Addrs[0], "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--memory", "200000", "--cache-dir", t.TempDir())
	if !eventually(func() bool {
		m := modelsOf(t, n)
		return m["toy"].State == "healthy" && m["scaled"].State == "healthy"
	}) {
		t.Fatalf("it offers %+v", modelsOf(t, n))
	}
	want := map[string][]int32{"toy": completed(t, n, "toy", 200), "scaled": completed(t, n, "scaled", 200)}
	var wg sync.WaitGroup
	for i := range 12 {
		model := []string{"toy", "scaled"}[i%2]
		wg.Go(func() {
			body := fmt.Sprintf(`{"model":%q,"prompt":[1,2,3],"max_tokens":8,"temperature":0,"ignore_eos":true,"return_token_ids":true}`, model)
			r, err := http.Post(n.HTTP+"/v1/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			var got struct {
				Choices []struct {
					IDs []int32 `json:"token_ids"`
				}
			}
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.StatusCode != 200 || len(got.Choices) != 1 || !slices.Equal(got.Choices[0].IDs, want[model]) {
				t.Errorf("%s: status %d, %+v, want %v (%v)", model, r.StatusCode, got, want[model], err)
			}
		})
	}
	wg.Wait()
}
