//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A gateway that was told no model offers the two of its swarm, also by an alias, and in the page's
// picker. The only server of one dies: its users hear which blocks are missing, and the other
// model's users notice nothing.
func TestSeveralModels(t *testing.T) {
	if _, err := os.Stat(smol); err != nil {
		t.Skip("not proven: several models behind one gateway: run scripts/get-model.sh")
	}
	s := &swarm{bootstrap: start(t, "bootstrap", "--new-swarm", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")}
	for _, model := range []string{toy, smol} {
		s.servers = append(s.servers, start(t, "serve", model, "--initial-peers", s.peers(), "--http", "off", "--admin", "127.0.0.1:0",
			"--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--throughput", "100", "--update-period", "1s"))
	}
	s.gateway = start(t, "gateway", "--initial-peers", s.peers(), "--alias", "small=SmolLM2-135M-Instruct.Q4_1", "--http", "127.0.0.1:0",
		"--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--update-period", "1s")
	states := func() map[string]string {
		var list struct {
			Data []struct{ ID, State string }
		}
		get(t, s.gateway.HTTP+"/v1/models", &list)
		out := map[string]string{}
		for _, m := range list.Data {
			out[m.ID] = m.State
		}
		return out
	}
	// The model stays in the list when nobody serves it any more.
	are := func(toy bool) {
		t.Helper()
		if !poll(patience, func() bool {
			m := states()
			return m["toy"] != "" && (m["toy"] == "healthy") == toy && m["small"] == "healthy"
		}) {
			t.Fatalf("models: %v, want toy healthy: %v", states(), toy)
		}
	}
	are(true)
	ask := func(model, prompt string) (status int, ids []int32, text string) {
		t.Helper()
		body := fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":12,"temperature":0,"ignore_eos":true,"return_token_ids":true,"timeout":20}`, model, prompt)
		resp, err := http.Post(s.gateway.HTTP+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		b.ReadFrom(resp.Body)
		var c struct {
			Choices []struct {
				IDs []int32 `json:"token_ids"`
			}
		}
		if err := json.Unmarshal(b.Bytes(), &c); err != nil || resp.StatusCode == 200 && len(c.Choices) != 1 {
			t.Fatalf("%d %s: %v", resp.StatusCode, &b, err)
		}
		if resp.StatusCode == 200 {
			ids = c.Choices[0].IDs
		}
		return resp.StatusCode, ids, b.String()
	}
	r := refs(t, 12)[0]
	_, ids, text := ask("toy", r.Prompt)
	if equal(t, "ids of toy", ids, r.IDs[:12]); t.Failed() {
		t.Fatal(text)
	}
	_, want, text := ask("small", "The sea is")
	if len(want) != 12 {
		t.Fatal(text)
	}

	t.Run("in a browser", func(t *testing.T) {
		cmd := exec.Command("node", "browser/models.mjs")
		cmd.Env = append(browserEnv(t, "the page's picker was not proven in a browser"), "WHORL_URL="+s.gateway.HTTP)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})

	s.servers[0].kill()
	are(false)
	if status, _, text := ask("toy", r.Prompt); status != 503 || !strings.Contains(text, "0-7") {
		t.Errorf("blocks that nobody holds: %d %s", status, text)
	}
	if status, ids, _ := ask("small", "The sea is"); status != 200 {
		t.Errorf("the other model: %d", status)
	} else {
		equal(t, "ids of the other model", ids, want)
	}
}
