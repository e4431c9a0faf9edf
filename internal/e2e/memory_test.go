//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// mounted is the command by which a process sees files of ours in the place of others.
func mounted(t *testing.T, files map[string]string) []string {
	t.Helper()
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		t.Skipf("not proven: a process whose memory becomes short (no mount namespaces: %v)", err)
	}
	script := ""
	for at, file := range files {
		script += fmt.Sprintf("mount --bind '%s' '%s' && ", file, at)
	}
	return []string{"unshare", "-m", "--propagation", "private", "sh", "-c", script + `exec "$0" "$@"`}
}

// strained is a server that sees memory as the test says.
type strained struct {
	*node
	meminfo string
}

func (s strained) left(t *testing.T, mib int) {
	t.Helper()
	if err := os.WriteFile(s.meminfo, fmt.Appendf(nil, "MemTotal: %d kB\nMemAvailable: %d kB\n", 8<<20, mib<<10), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The system that a server runs on is nearly out of memory while eight streams run through it. It
// parks them and takes no others, says so in its log, its events, its metrics and its status, and
// stays alive; the streams go on elsewhere with the ids of one machine. Then it serves again.
func TestMemoryPressure(t *testing.T) {
	const steps = 150
	all := refs(t, 8)[:8]
	want := make([][]int32, len(all))
	for i, r := range all {
		var local struct{ IDs []int32 }
		lastJSON(t, run(t, "", "generate", toy, "--local", "--ids", idList(r.PromptIDs), "--max-new-tokens", fmt.Sprint(steps), "--ignore-eos", "--json"), &local)
		want[i] = local.IDs
	}
	s := spawn(t, nil)
	var servers []strained
	for range 2 {
		n := strained{meminfo: filepath.Join(t.TempDir(), "meminfo")}
		n.left(t, 4096)
		n.node = launching{env: ownFolders(t), by: mounted(t, map[string]string{"/proc/meminfo": n.meminfo})}.launch(t, s.serverArgs("0:8")...)
		servers = append(servers, n)
	}
	for _, n := range servers {
		if err := n.wait(t, patience); err != nil {
			t.Fatalf("%v\n%s", err, n.log)
		}
	}
	var short strained
	var once sync.Once
	squeeze := func() {
		for _, n := range servers {
			if n.sessions(t) > 0 {
				short = n
			}
		}
		short.left(t, 50)
	}
	var readers sync.WaitGroup
	for i, r := range all {
		k := s.open(t, 256)
		readers.Go(func() {
			ids, _, last := k.generate(map[string]any{"inputs": r.Prompt, "max_new_tokens": steps, "stream": true, "ignore_eos": true}, func(n int) {
				if n >= 10 {
					once.Do(squeeze)
				}
				<-time.After(10 * time.Millisecond) // a reader in no hurry: the streams outlive the change
			})
			if !last.OK {
				t.Errorf("reader %d: %+v", i, last)
				return
			}
			equal(t, r.Prompt, ids, want[i])
		})
	}
	readers.Wait()
	if t.Failed() {
		return
	}
	var status struct {
		State  string
		Memory struct {
			Left   int64 `json:"left_bytes"`
			Short  string
			Parked int
		}
	}
	if !poll(patience, func() bool { // it looks now and then
		get(t, short.Admin+"/api/v1/node", &status)
		m := status.Memory
		return status.State == "online" && m.Left == 50<<20 && strings.Contains(m.Short, "leaves 50.0 MiB of 8.00 GiB") && m.Parked > 0 && short.sessions(t) == 0
	}) {
		t.Errorf("the server: %+v, %d sessions", status, short.sessions(t))
	}
	if one, parked := short.metric(t, "whorl_server_memory_short"), short.metric(t, "whorl_server_memory_parked_sessions_total"); one != 1 || int(parked) != status.Memory.Parked {
		t.Errorf("metrics: short %v, parked %v", one, parked)
	}
	if !strings.Contains(short.log.String(), "memory is short") {
		t.Error("its log says nothing")
	}
	events := func(want string) bool {
		return poll(patience, func() bool {
			return strings.Contains(page(t, short.Admin+"/api/v1/events?wait=0s&types=node.memory"), want)
		})
	}
	if !events(`"short":true`) {
		t.Error("no event tells of it")
	}
	// Who comes meanwhile is served by the other.
	for _, r := range all[:2] {
		status, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": 8, "temperature": 0, "return_token_ids": true, "ignore_eos": true})
		if status != 200 {
			t.Fatalf("status %d: %+v", status, c.Error)
		}
		equal(t, r.Prompt, c.Choices[0].TokenIDs, r.IDs[:8])
	}
	if short.sessions(t) != 0 {
		t.Error("it takes sessions while it is short")
	}
	short.left(t, 4096)
	if !poll(patience, func() bool { return short.metric(t, "whorl_server_memory_short") == 0 }) || !events(`"short":false`) {
		t.Error("it does not take sessions again")
	}
}
