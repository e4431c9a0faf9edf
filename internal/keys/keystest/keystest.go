// Package keystest tests books of keys.
package keystest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"whorl/internal/keys"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func key(t testing.TB, name string, l keys.Limits, expires time.Time) keys.Key {
	t.Helper()
	k, _, err := keys.New(name, []keys.Scope{keys.Infer, keys.Read}, l, noon, expires)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Book tests one that is empty. open opens it again, as another process would.
func Book(t *testing.T, open func() keys.Book) {
	ctx, one, other := t.Context(), open(), open()
	alice := key(t, "alice", keys.Limits{Requests: 60, Tokens: 1000, Answers: 2}, noon.Add(1000*time.Hour))
	bob := key(t, "bob", keys.Limits{}, time.Time{})
	if all, err := one.List(ctx); err != nil || len(all) != 0 {
		t.Fatalf("a new book: %+v, %v", all, err)
	}
	if err := errors.Join(one.Add(ctx, bob), other.Add(ctx, alice)); err != nil {
		t.Fatal(err)
	}
	if err := one.Add(ctx, key(t, "alice", keys.Limits{}, time.Time{})); !errors.Is(err, keys.ErrTaken) {
		t.Errorf("a name twice: %v", err)
	}
	if err := one.Add(ctx, keys.Key{Name: "broken"}); err == nil {
		t.Error("a key without a hash was taken")
	}
	testVersion(t, one, other)
	used := noon.Add(time.Hour)
	if err := errors.Join(one.Touch(ctx, map[string]time.Time{alice.ID: used, "key_gone": noon}), other.Touch(ctx, map[string]time.Time{alice.ID: noon})); err != nil {
		t.Fatal(err)
	}
	alice.Used = used
	for _, b := range []keys.Book{one, other, open()} {
		all, err := b.List(ctx)
		if err != nil || fmt.Sprintf("%+v", all) != fmt.Sprintf("%+v", []keys.Key{alice, bob}) {
			t.Errorf("%v\n got %+v\nwant %+v", err, all, []keys.Key{alice, bob})
		}
	}
	for _, which := range []string{"alice", bob.ID} {
		for i, want := range []bool{true, false} {
			if ok, err := one.Remove(ctx, which); ok != want || err != nil {
				t.Errorf("remove %s, time %d: %v %v", which, i, ok, err)
			}
		}
	}
	// Nothing is lost where many change it at a time.
	var wg sync.WaitGroup
	for i := range 4 {
		b := open()
		wg.Go(func() {
			for j := range 5 {
				if err := b.Add(ctx, key(t, fmt.Sprintf("%d-%d", i, j), keys.Limits{}, time.Time{})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if all, err := other.List(ctx); len(all) != 20 || err != nil {
		t.Errorf("%d keys, %v", len(all), err)
	}
}

// testVersion sees what other changes by the version of one.
func testVersion(t *testing.T, one, other keys.Book) {
	version := func() string {
		t.Helper()
		v, err := one.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	begun := version()
	if again := version(); again != begun {
		t.Errorf("version %q became %q, and nothing has changed", begun, again)
	}
	if err := other.Add(t.Context(), key(t, "carol", keys.Limits{}, time.Time{})); err != nil {
		t.Fatal(err)
	}
	added := version()
	if ok, err := other.Remove(t.Context(), "carol"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if removed := version(); added == begun || removed == added {
		t.Errorf("versions %q, with a key %q, without it %q", begun, added, removed)
	}
}
