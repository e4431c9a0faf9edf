//go:build e2e

package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// curling asks by curl, as an operator's script does, and reads the answer.
func curling(t *testing.T, v any, args ...string) {
	t.Helper()
	out, err := exec.Command("curl", append([]string{"-sf"}, args...)...).Output()
	if err == nil {
		err = json.Unmarshal(out, v)
	}
	if err != nil {
		t.Fatalf("curl -sf %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// A node that is killed in the middle of a drain and of a benchmark starts again drained, with the
// operator's reason; the drain is done, since its sessions are gone, and the benchmark has failed. A
// resume is for good.
func TestOperationsOutliveTheirNode(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("that operations outlive their node was not shown: %v", err)
	}
	s := spawn(t, nil)
	env := ownFolders(t)
	again := func() (n *node, v1 string) {
		n = launchIn(t, env, s.serverArgs("0:8")...)
		if err := n.wait(t, 60*time.Second); err != nil {
			t.Fatalf("%v\n%s", err, n.log)
		}
		return n, n.Admin + "/api/v1/"
	}
	type operation struct {
		ID, Kind, State string
		Began           time.Time
		Metadata        struct{ Reason string }
		Progress        struct{ Done, Total float64 }
		Error           *struct{ Code, Detail string }
	}
	type status struct {
		State   string
		Drained *struct{ Reason string }
	}
	n, v1 := again()
	if !poll(30*time.Second, func() bool { code, _ := s.post(t, map[string]any{"prompt": "a", "max_tokens": 1}); return code == 200 }) {
		t.Fatal("nobody answers")
	}
	k := s.open(t, 64)
	k.generate(map[string]any{"inputs": "a", "max_new_tokens": 2}, nil)

	var drain, bench, o operation
	ask := []string{"-X", "POST", "-H", "Content-Type: application/json", "-H", "Idempotency-Key: disk", "-d", `{"reason": "new disk", "deadline_s": 3600}`}
	curling(t, &drain, append(ask, v1+"node/drain")...)
	curling(t, &bench, "-X", "POST", "-H", "Content-Type: application/json", "-d", `{"seconds": 30}`, v1+"node/benchmark")
	curling(t, &o, v1+"operations/"+drain.ID)
	if o.State != "running" || o.Progress.Total != 1 || bench.State != "running" {
		t.Fatalf("before the end: %+v, %+v", o, bench)
	}
	n.kill()

	n, v1 = again()
	var st status
	if curling(t, &st, v1+"node"); st.State != "draining" || st.Drained == nil || st.Drained.Reason != "new disk" {
		t.Errorf("started again it is %+v", st)
	}
	if curling(t, &o, v1+"operations/"+drain.ID+"?wait=30s"); o.State != "done" || o.Metadata.Reason != "new disk" || !o.Began.Equal(drain.Began) {
		t.Errorf("the drain: %+v", o)
	}
	if curling(t, &o, v1+"operations/"+bench.ID); o.State != "failed" || o.Error == nil || o.Error.Code != "interrupted" {
		t.Errorf("the benchmark: %+v", o)
	}
	if curling(t, &o, append(ask, v1+"node/drain")...); o.ID != drain.ID {
		t.Errorf("the same request, sent again: %+v", o)
	}
	if code, c := s.post(t, map[string]any{"prompt": "a", "max_tokens": 1}); code != 503 {
		t.Errorf("a drained node answers: status %d, %+v", code, c)
	}
	curling(t, &o, "-X", "POST", v1+"node/resume?wait=30s")
	if !poll(30*time.Second, func() bool { code, _ := s.post(t, map[string]any{"prompt": "a", "max_tokens": 1}); return code == 200 }) {
		t.Error("resumed it does not answer")
	}
	n.signal(syscall.SIGTERM)
	<-n.done

	n, v1 = again()
	st = status{}
	if curling(t, &st, v1+"node"); st.State != "online" || st.Drained != nil {
		t.Errorf("after a resume it starts as %+v", st)
	}
	var list struct{ Items []operation }
	curling(t, &list, v1+"operations")
	var got []string
	for _, o := range list.Items {
		got = append(got, o.Kind+" "+o.State)
	}
	if want := "resume done, benchmark failed, drain done"; strings.Join(got, ", ") != want {
		t.Errorf("operations are %s, want %s", strings.Join(got, ", "), want)
	}
}
