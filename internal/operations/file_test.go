package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/swarm"
)

// stays works until its context ends.
func stays(ctx context.Context, tell func(Progress)) (any, error) {
	tell(Progress{Done: 1, Total: 3, Unit: "sessions"})
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func list(s *Set) string {
	var out []string
	for _, o := range s.List() {
		b, _ := json.Marshal(o.Result)
		out = append(out, fmt.Sprintf("%s %s %s %v %v", o.Kind, o.State, b, o.Err, o.About))
	}
	return strings.Join(out, "\n")
}

// Operations are told of as they were after the process has ended, however it did; what ran is no
// lie: it has failed, or goes on.
func TestSurvive(t *testing.T) {
	for _, how := range []string{"killed", "ended"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "operations.json")
				ctx, stop := context.WithCancel(t.Context())
				s := Open(ctx, path, nil)
				s.Begin(Spec{Kind: "benchmark", Group: "blocks"}, ready(counts))
				time.Sleep(5 * time.Second)
				refused := swarm.Errorf(swarm.CodeNotLoaded, swarm.Again, "not now")
				s.Begin(Spec{Kind: "restart", Group: "blocks"}, ready(func(context.Context, func(Progress)) (any, error) { return nil, refused }))
				synctest.Wait()
				off, _ := s.Begin(Spec{Kind: "move", Group: "blocks"}, ready(stays))
				synctest.Wait()
				s.Cancel(off.ID)
				s.Wait(t.Context(), off.ID)
				s.Begin(Spec{Kind: "move", Group: "blocks", About: map[string]string{"to": "4:8"}}, ready(stays))
				drain, _ := s.Begin(Spec{Kind: "drain", Group: "sessions", About: map[string]string{"reason": "disk"}, Key: "k", Of: "a"}, ready(stays))
				synctest.Wait()
				before, err := os.ReadFile(path) // as a process that is killed leaves it
				if err != nil {
					t.Fatal(err)
				}
				stop()
				s.Close()
				if o, _, _ := s.Get(drain.ID); !errors.Is(o.Err, ErrOver) {
					t.Errorf("cut off: %v", show(o))
				}
				if how == "killed" {
					if err := os.WriteFile(path, before, 0o600); err != nil {
						t.Fatal(err)
					}
				}

				s = Open(t.Context(), path, nil)
				over := ErrOver.Error()
				want := "benchmark done 42 <nil> map[]\nrestart failed null " + refused.Error() + " map[]\nmove cancelled null cancelled by the operator map[]\n" +
					"move failed null " + over + " map[to:4:8]\ndrain failed null " + over + " map[reason:disk]"
				if got := list(s); got != want {
					t.Errorf("after the end:\n%s\nwant:\n%s", got, want)
				}
				if e := swarm.AsError(s.List()[1].Err); e.Code != swarm.CodeNotLoaded || e.Verdict != swarm.Again {
					t.Errorf("the error is %+v", e)
				}
				if o, ok := s.Asked("k"); !ok || o.ID != drain.ID || o.Of != "a" {
					t.Errorf("asked with its key: %v %v", o, ok)
				}
				if _, ok := s.Asked(""); ok {
					t.Error("no key is a key")
				}
				if _, ok := s.Continue("restart", stays); ok {
					t.Error("what has failed goes on")
				}
				hold := make(chan struct{})
				o, ok := s.Continue("drain", func(context.Context, func(Progress)) (any, error) { <-hold; return nil, nil })
				if !ok || o.ID != drain.ID || o.State != Running || !o.Began.Equal(drain.Began) || o.Err != nil {
					t.Errorf("goes on: %v %v", show(o), ok)
				}
				var busy *Busy
				if _, err := s.Begin(Spec{Kind: "resume", Group: "sessions"}, ready(nil)); !errors.As(err, &busy) {
					t.Errorf("beside one that goes on: %v", err)
				}
				close(hold)
				s.Wait(t.Context(), o.ID)
				if got := list(Open(t.Context(), path, nil)); !strings.HasSuffix(got, "drain done null <nil> map[reason:disk]") {
					t.Errorf("once more:\n%s", got)
				}
			})
		})
	}
}

// Whoever is told of a change is told of one that is kept.
func TestKeptBeforeTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "operations.json")
	kept := func(want string) {
		t.Helper()
		if b, err := os.ReadFile(path); err != nil || !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s is not kept: %s, %v", want, b, err)
		}
	}
	s := Open(t.Context(), path, func(o Operation) { kept(`"state":"` + string(o.State) + `"`) })
	o, err := s.Begin(Spec{Kind: "move", Group: "blocks"}, ready(func(context.Context, func(Progress)) (any, error) { return 7, nil }))
	if err != nil {
		t.Fatal(err)
	}
	kept(o.ID)
	if _, err := s.Wait(t.Context(), o.ID); err != nil {
		t.Fatal(err)
	}
	kept(`"result":7`)
}

// However large what is done is, the file is bounded, and holds what fits.
func TestFileBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "operations.json")
	all := make([]Operation, kept)
	evil := strings.Repeat("\x01", 1<<20)
	for i := range all {
		all[i] = Operation{
			ID: fmt.Sprint("op_", i), Spec: Spec{Kind: "move", Group: "blocks", About: map[string]string{"a": evil, "b": evil, "c": evil, "d": evil}}, State: Failed,
			Began: time.Unix(1, 0), Ended: time.Unix(2, 0), Progress: Progress{Note: evil}, Result: evil, Err: errors.New(evil),
		}
	}
	all[0].Result = strings.Repeat("x", maxResult-2)
	if err := write(path, all); err != nil {
		t.Fatal(err)
	}
	got, err := read(path)
	if err != nil || len(got) != kept || len(got[1].About["a"]) != maxText || got[1].Result != nil || len(got[0].Result.(json.RawMessage)) != maxResult {
		t.Errorf("%d operations, %v", len(got), err)
	}
}

// A file that is none is put aside, and the node has no operations.
func TestBrokenFile(t *testing.T) {
	entry := `{"id":"op_1","kind":"move","group":"blocks","state":"done","began":"2026-01-01T00:00:00Z","ended":"2026-01-01T00:00:01Z"}`
	for name, text := range map[string]string{
		"empty": "", "no JSON": "x", "another version": `{"version":2}`, "half": `{"version":1,"operations":[`, "large": strings.Repeat(" ", maxFile) + "{}",
		"no id": `{"version":1,"operations":[{"kind":"move","state":"running"}]}`, "no state": `{"version":1,"operations":[{"id":"op_1","kind":"move","state":"odd"}]}`,
		"twice": `{"version":1,"operations":[` + entry + `,` + entry + `]}`, "failed of nothing": `{"version":1,"operations":[` + strings.Replace(entry, "done", "failed", 1) + `]}`,
	} {
		path := filepath.Join(t.TempDir(), "operations.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := Open(t.Context(), path, nil)
		aside, err := os.ReadFile(path + ".broken")
		if len(s.List()) != 0 || err != nil || string(aside) != text {
			t.Errorf("%s: %s, %v", name, list(s), err)
		}
		if _, err := s.Begin(Spec{Kind: "resume", Group: "sessions"}, ready(nil)); err != nil || len(Open(t.Context(), path, nil).List()) != 1 {
			t.Errorf("%s: nothing is kept after it: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "operations.json")
	if err := os.WriteFile(path, []byte(`{"version":1,"new":true,"operations":[`+entry+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := Open(t.Context(), path, nil); len(s.List()) != 1 {
		t.Error("a field of a later program costs all")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"operations":[{"id":"op_1","kind":"move","group":"blocks","state":"running","began":"2026-01-01T00:00:00Z","about":{"to":"4:8"},"progress":{"Done":1,"Total":2}}]}`))
	f.Add([]byte(`{"version":1,"operations":[{"id":"op_1","kind":"move","state":"failed","began":"2026-01-01T00:00:00Z","ended":"2026-01-01T00:00:01Z","code":"x","verdict":2,"message":"y","result":[1]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decode(data)
		if err != nil {
			return
		}
		if len(list) > kept {
			t.Fatalf("%d operations", len(list))
		}
		again, err := encode(list)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decode(again)
		if err != nil || len(back) != len(list) {
			t.Fatalf("written again: %d of %d, %v:\n%s", len(back), len(list), err, again)
		}
	})
}
