package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"whorl/internal/wiring"
)

// A node is the same one after a restart; nodes that run at once are different ones, of each
// kind and swarm; nodes that are told to keep nothing do.
func TestIdentitiesPersist(t *testing.T) {
	data := t.TempDir()
	start := func(args ...string) *running {
		return startRun(t, append(strings.Fields("bootstrap --new-swarm --admin off --data-dir "+data), args...)...)
	}
	first, second := start(), start()
	other := start("--swarm", "other")
	ids := map[string]string{first.PeerID: "first", second.PeerID: "second", other.PeerID: "other"}
	if len(ids) != 3 {
		t.Errorf("nodes share identities: %v", ids)
	}
	if !strings.Contains(second.log.String(), "other nodes of this kind run here") {
		t.Errorf("the second does not say so:\n%s", second.log)
	}
	first.stop()
	if again := start(); again.PeerID != first.PeerID {
		t.Errorf("after a restart %s, was %s", again.PeerID, first.PeerID)
	}
	third := start()
	if who, taken := ids[third.PeerID]; taken {
		t.Errorf("a third has the identity of the %s", who)
	}
	kept, err := filepath.Glob(filepath.Join(data, "nodes", "*"))
	if err != nil || len(kept) != 4 {
		t.Errorf("%v, %v", kept, err)
	}
	for _, dir := range kept {
		if st, err := os.Stat(filepath.Join(dir, "identity")); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", dir, st, err)
		}
	}
	before, _ := filepath.Glob(filepath.Join(data, "*", "*", "*"))
	for range 2 {
		n := start("--ephemeral")
		if who, taken := ids[n.PeerID]; taken {
			t.Errorf("an ephemeral node has the identity of %s", who)
		}
		ids[n.PeerID] = "ephemeral"
		n.stop()
	}
	if after, _ := filepath.Glob(filepath.Join(data, "*", "*", "*")); len(after) != len(before) {
		t.Errorf("ephemeral nodes left %v, there was %v", after, before)
	}
}

// A folder that was asked for must be usable.
func TestDataFolderUnusable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"bootstrap", "--new-swarm", "--admin", wiring.Off, "--host-maddrs", loopback}
	got := whorl(t, "", nil, append(args, "--data-dir", file)...)
	if got.code != exitUsage || !strings.Contains(got.err, "--data-dir") || !strings.Contains(got.err, file) {
		t.Errorf("exit code %d\n%s", got.code, got.err)
	}
	got = whorl(t, "", nil, append(args, "--ephemeral", "--identity-path", file+".key")...)
	if got.code != exitUsage || !strings.Contains(got.err, "--ephemeral and --identity-path") {
		t.Errorf("exit code %d\n%s", got.code, got.err)
	}
}

// Nodes of one operator find each other by a file: no word is copied by hand.
func TestInvitationFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "invitation")
	args := []string{"--http", wiring.Off, "--admin", wiring.Off}
	first := startRun(t, append([]string{"bootstrap", "--new-swarm", "--swarm", "files", "--invitation-file", file}, args...)...)
	second := startRun(t, append([]string{"join", "@" + file, toy, "--throughput", "100"}, args...)...)
	if second.PeerID == first.PeerID {
		t.Error("one node")
	}
	ref := references(t)[0]
	var got answerObject
	whorl(t, "", nil, "generate", "@"+file, toy, "--prompt", ref.Prompt, "--max-new-tokens", "4", "--ignore-eos", "--json").last(t, &got)
	if len(got.IDs) != 4 || string(got.Route[0].Peer) != second.PeerID {
		t.Errorf("%v by %v", got.IDs, got.Route)
	}
	for _, c := range []struct{ arg, want string }{{"@" + file + ".missing", "--invitation-file"}, {"@" + os.Args[0], "holds no invitation"}} {
		if r := whorl(t, "", nil, "join", c.arg); r.code != exitUsage || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: exit code %d, %s", c.arg, r.code, r.err)
		}
	}
}
