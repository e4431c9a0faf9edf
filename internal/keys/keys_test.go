package keys

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func newKey(t testing.TB, name string, l Limits, scopes ...Scope) (Key, string) {
	t.Helper()
	if scopes == nil {
		scopes = []Scope{Infer}
	}
	k, secret, err := New(name, scopes, l, noon, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return k, secret
}

func TestScopes(t *testing.T) {
	for _, c := range []struct {
		has  Scope
		want string // what it allows
	}{
		{Read, "read"}, {Infer, "infer"}, {Operate, "read operate"}, {Admin, "read infer operate admin"},
	} {
		k := Key{Scopes: []Scope{c.has}}
		var got []string
		for _, s := range Scopes() {
			if k.May(s) {
				got = append(got, string(s))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s allows %v, want %s", c.has, got, c.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		scopes  []Scope
		limits  Limits
		expires time.Time
		want    string
	}{
		{"", []Scope{Infer}, Limits{}, time.Time{}, "1 to 64 characters"},
		{" a", []Scope{Infer}, Limits{}, time.Time{}, "blanks"},
		{"a\nb", []Scope{Infer}, Limits{}, time.Time{}, "printed"},
		{"key_0", []Scope{Infer}, Limits{}, time.Time{}, "key_"},
		{strings.Repeat("a", 65), []Scope{Infer}, Limits{}, time.Time{}, "64"},
		{"a", nil, Limits{}, time.Time{}, "read, infer, operate, admin"},
		{"a", []Scope{"root"}, Limits{}, time.Time{}, `"root" is unknown`},
		{"a", []Scope{Infer}, Limits{Requests: -1}, time.Time{}, "limit of -1"},
		{"a", []Scope{Infer}, Limits{}, noon, "expired already"},
	} {
		if _, _, err := New(c.name, c.scopes, c.limits, noon, c.expires); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %v: %v, want %q", c.name, c.scopes, err, c.want)
		}
	}
}

func TestBrokenFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "no file of keys",
		"[]":                      "no file of keys",
		`{"keys":[{"name":"a"}]}`: "needs a scope",
		`{"keys":[{"name":"a","scopes":["infer"],"sha256":"00"}]}`: "broken",
	} {
		path := filepath.Join(t.TempDir(), "keys.json")
		os.WriteFile(path, []byte(text), 0o600)
		if _, err := OpenFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := OpenFile(filepath.Join(t.TempDir(), "none", "keys.json")); err == nil || !strings.Contains(err.Error(), "must exist") {
		t.Errorf("no folder: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	k, _ := newKey(f, "a", Limits{Tokens: 3})
	f.Add([]byte(`{"keys":[{"id":"` + k.ID + `","name":"a","scopes":["infer"],"sha256":"` + k.Hash + `","created":"2026-01-02T12:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		all, err := parse(raw)
		for _, k := range all {
			if err != nil || k.Validate() != nil {
				t.Errorf("%+v, %v", k, err)
			}
		}
	})
}

// A ring follows its book; what keys have used stays.
func TestRing(t *testing.T) {
	ctx := t.Context()
	f, err := OpenFile(filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := NewRing(f)
	k, secret := newKey(t, "alice", Limits{Requests: 1})
	for _, s := range []string{secret, "", "whorl_", strings.Repeat("whorl_", 1000)} {
		if _, err := r.Find(s, noon); !errors.Is(err, ErrUnknown) {
			t.Errorf("%.20q before it is there: %v", s, err)
		}
	}
	if err := r.Add(ctx, k); err != nil {
		t.Fatal(err)
	}
	h, err := r.Find(secret, noon)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Enter(true, noon); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Note(ctx), r.Refresh(ctx)); err != nil {
		t.Fatal(err)
	}
	if same, _ := r.Find(secret, noon); same != h || !h.Key().Used.Equal(noon) || h.Enter(true, noon) == nil {
		t.Error("a refresh forgot what was used")
	}
	if all, _ := f.List(ctx); !all[0].Used.Equal(noon) {
		t.Error("the book does not know of the use")
	}
	late, other, err := New("late", []Scope{Read}, Limits{}, noon, noon.Add(time.Hour))
	if err != nil || r.Add(ctx, late) != nil {
		t.Fatal(err)
	}
	if _, err := r.Find(other, noon.Add(59*time.Minute)); err != nil {
		t.Error(err)
	}
	if _, err := r.Find(other, noon.Add(time.Hour)); !errors.Is(err, ErrExpired) {
		t.Errorf("an hour later: %v", err)
	}
	if ok, err := r.Remove(ctx, "alice"); !ok || err != nil {
		t.Error(ok, err)
	}
	if _, err := r.Find(secret, noon); !errors.Is(err, ErrUnknown) {
		t.Errorf("after it was removed: %v", err)
	}
}

// A minute's worth at once, and then as much as time brings; tokens may be owed.
func TestRates(t *testing.T) {
	k, _ := newKey(t, "a", Limits{Requests: 60, Tokens: 600})
	h := newHolder(k)
	for i := range 60 {
		if err := h.Enter(true, noon); err != nil {
			t.Fatal(i, err)
		}
	}
	var limit *LimitError
	if err := h.Enter(true, noon); !errors.As(err, &limit) || limit.What != "requests" || limit.Wait != time.Second {
		t.Fatalf("%v", err)
	}
	later := noon.Add(time.Second)
	if err := h.Enter(true, later); err != nil {
		t.Error(err)
	}
	h.Spend(1000, 200, later) // of 600: a minute's worth is owed
	later = later.Add(time.Second)
	if err := h.Enter(true, later); !errors.As(err, &limit) || limit.What != "tokens" || limit.Wait.Round(time.Second) != 59*time.Second {
		t.Errorf("%v %v", err, limit.Wait)
	}
	if err := h.Enter(false, later); err != nil {
		t.Errorf("what uses no tokens: %v", err)
	}
	requests, tokens := h.Allowances(later)
	if requests.Limit != 60 || requests.Left != 0 || tokens.Left != 0 || tokens.Full.Round(time.Second) != 119*time.Second {
		t.Errorf("%+v %+v", requests, tokens)
	}
	if u := h.Usage(); u != (Usage{Requests: 62, PromptTokens: 1000, CompletionTokens: 200}) {
		t.Errorf("%+v", u)
	}
}

// Answers of a key wait for each other, and further requests are told.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newKey(t, "a", Limits{Answers: 2})
		h := newHolder(k)
		for range 2 {
			if err := h.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var limit *LimitError
		if err := h.Enter(true, time.Now()); !errors.As(err, &limit) || limit.What != "answers" {
			t.Errorf("%v", err)
		}
		got := make(chan error)
		go func() { got <- h.Begin(t.Context()) }()
		synctest.Wait()
		h.End()
		if err := <-got; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Begin(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		k.Answers = 3
		go func() { got <- h.Begin(t.Context()) }()
		synctest.Wait()
		h.change(k)
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// counting is a book that counts how often it is read.
type counting struct {
	Book
	lists int
}

func (c *counting) List(ctx context.Context) ([]Key, error) {
	c.lists++
	return c.Book.List(ctx)
}

// A book that has not changed is not read again, and one that has is, at the next look.
func TestLooksReadChangesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	file, err := OpenFile(path)
	other, err2 := OpenFile(path)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	book := &counting{Book: file}
	r := NewRing(book)
	looks := func(want, holders int) {
		t.Helper()
		for range 3 {
			if err := r.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if book.lists != want || len(r.Holders()) != holders {
			t.Errorf("read %d times, want %d; %d keys, want %d", book.lists, want, len(r.Holders()), holders)
		}
	}
	looks(1, 0)
	k, _, err := New("alice", []Scope{Infer}, Limits{}, time.Now(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Add(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	looks(2, 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	looks(3, 0)
}
