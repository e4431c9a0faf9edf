//go:build e2e && linux

package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// corrupt alters one weight in the memory of a running server: from then on it announces what it
// loaded and checked, and gives other rows. The binary knows nothing of lies.
func (n *node) corrupt(t *testing.T, tensor string, r *rand.Rand) {
	t.Helper()
	weights := rawTensor(t, tensor)
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", n.cmd.Process.Pid), os.O_RDWR, 0)
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("not proven that lying processes are found: this system lets no process write into another's memory: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	at := 4 * r.IntN(len(weights)/4)
	lie := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1.5+r.Float32()))
	found := 0
	for _, line := range strings.Split(string(maps), "\n") {
		var from, to uint64
		var flags string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &flags); err != nil || flags[0] != 'r' || to-from > 1<<30 || strings.Contains(line, "[v") {
			continue
		}
		b := make([]byte, to-from)
		k, _ := mem.ReadAt(b, int64(from))
		for b, base := b[:k], int64(from); ; {
			i := bytes.Index(b, weights)
			if i < 0 {
				break
			}
			if _, err := mem.WriteAt(lie, base+int64(i+at)); err == nil {
				found++
			}
			b, base = b[i+len(weights):], base+int64(i+len(weights))
		}
	}
	if found == 0 {
		t.Fatalf("%s is nowhere in the memory of process %d", tensor, n.cmd.Process.Pid)
	}
}

// rawTensor are the bytes of a tensor of the toy model.
func rawTensor(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(toy, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	head := 8 + binary.LittleEndian.Uint64(b)
	var tensors map[string]struct {
		Offsets [2]uint64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(b[8:head], &tensors); err != nil {
		t.Fatal(err)
	}
	at, ok := tensors[name]
	if !ok {
		t.Fatalf("the toy model has no %s", name)
	}
	return b[head+at.Offsets[0] : head+at.Offsets[1]]
}

// Of three processes that hold a block one computes with weights that changed in its memory. Verified
// answers are right from the first one on; with default audits the gateway has proven who lies
// within 20 sessions of each, and all honest processes avoid them soon after; no honest server is avoided. WHORL_LIAR_RUNS asks for more seeds.
func TestLyingProcesses(t *testing.T) {
	runs := 1
	if n, err := strconv.Atoi(os.Getenv("WHORL_LIAR_RUNS")); err == nil {
		runs = n
	}
	all := refs(t, 12)
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			s := spawn(t, []string{"0:4", "0:4", "0:4", "4:8", "4:8", "4:8"})
			liars := map[string]bool{}
			for k := range 2 {
				n := s.servers[3*k+rng.IntN(3)]
				norm := []string{"input_layernorm", "post_attention_layernorm"}[rng.IntN(2)]
				n.corrupt(t, fmt.Sprintf("model.layers.%d.%s.weight", 4*k+rng.IntN(4), norm), rng)
				liars[n.PeerID] = true
			}
			for i := range 3 {
				r := all[i]
				var got struct {
					IDs      []int32 `json:"ids"`
					Verified int     `json:"verified"`
				}
				lastJSON(t, run(t, "", "generate", toy, "--ids", idList(r.PromptIDs), "--max-new-tokens", "12", "--ignore-eos", "--temperature", "0", "--json", "--verify", "2", "--initial-peers", s.peers()), &got)
				equal(t, "verified ids", got.IDs, r.IDs[:12])
				if got.Verified != 2 {
					t.Errorf("verified by %d", got.Verified)
				}
			}
			for i := range 4 { // an answer that an audit finds right is right
				r := all[i]
				res := run(t, "", "generate", toy, "--ids", idList(r.PromptIDs), "--max-new-tokens", "12", "--ignore-eos", "--temperature", "0", "--json", "--audit", "--initial-peers", s.peers())
				var got struct {
					IDs    []int32
					Audits []struct{ Peer, Result string }
				}
				lines := strings.Split(strings.TrimSpace(res.stdout), "\n")
				if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil || len(got.Audits) != 2 {
					t.Fatalf("%v in %s\n%s", err, res.stdout, res.stderr)
				}
				lied := false
				for _, a := range got.Audits {
					lied = lied || liars[a.Peer]
					if a.Result == "agreed" && liars[a.Peer] {
						t.Errorf("an audit found the rows of a liar right: %+v", got.Audits)
					}
				}
				if lied != (res.code != 0) || !lied && fmt.Sprint(got.IDs) != fmt.Sprint(r.IDs[:12]) {
					t.Errorf("exit code %d, %+v, ids %v, want %v: %s", res.code, got.Audits, got.IDs, r.IDs[:12], res.stderr)
				}
			}
			wrong, sessions := 0, 0
			found := func() bool {
				n := 0
				for p, kind := range s.gateway.avoided(t) {
					switch {
					case !liars[p] && kind != "late" && kind != "lost": // as on a machine that has much to do
						t.Errorf("an honest server is avoided: %s", kind)
					case liars[p] && kind == "proven":
						n++
					}
				}
				return n == len(liars)
			}
			for ; sessions < 60 && !t.Failed(); sessions++ {
				r := all[sessions%len(all)]
				status, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": 12, "temperature": 0, "return_token_ids": true, "ignore_eos": true})
				if status != 200 {
					t.Fatalf("status %d: %+v", status, c.Error)
				}
				if fmt.Sprint(c.Choices[0].TokenIDs) != fmt.Sprint(r.IDs[:12]) {
					wrong++
				}
				if poll(300*time.Millisecond, found) {
					break
				}
			}
			if !poll(patience, found) { // an audit runs beside what comes next
				t.Errorf("after %d sessions these are avoided: %v, of the liars %v", sessions, s.gateway.avoided(t), liars)
			}
			// The other nodes have no users: they know what the gateway told and they looked into.
			begun := time.Now()
			for _, n := range s.servers {
				knows := func() bool {
					for p, kind := range n.avoided(t) {
						if !liars[p] && kind != "late" && kind != "lost" {
							t.Errorf("%s avoids an honest server: %s", n.PeerID, kind)
						}
					}
					for p := range liars {
						if p != n.PeerID && n.avoided(t)[p] != "proven" {
							return false
						}
					}
					return true
				}
				if !liars[n.PeerID] && !poll(patience, knows) {
					t.Errorf("%s does not avoid the liars: %v", n.PeerID, n.avoided(t))
				}
			}
			t.Logf("seed %d: all know of them %v later", seed, time.Since(begun).Round(time.Millisecond))
			t.Logf("seed %d: both are found after %d sessions, of which %d had wrong ids", seed, sessions+1, wrong)
			for i := range 4 { // and never asked again
				r := all[i]
				if _, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": 12, "temperature": 0, "return_token_ids": true, "ignore_eos": true}); c.Error == nil {
					equal(t, "ids without liars", c.Choices[0].TokenIDs, r.IDs[:12])
				}
			}
		})
	}
}
