// Package answerstest tests shelves of answers.
package answerstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"whorl/internal/answers"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// Shelf tests one. open gives an empty shelf of these limits.
func Shelf(t *testing.T, open func(t *testing.T, l answers.Limits) answers.Shelf) {
	ctx := context.Background()
	limits := answers.Limits{Age: time.Hour, Count: 40, Bytes: 40 * 1000, Share: 4}
	var at time.Time
	put := func(t *testing.T, s answers.Shelf, owner, user string, i, size int) string {
		t.Helper()
		id := fmt.Sprintf("resp_%s%s%d", owner, user, i)
		at = at.Add(time.Millisecond)
		a := answers.Answer{ID: id, Owner: owner, User: user, Body: bytes.Repeat([]byte{byte(i), 0, 0xff}, size/3), Created: at}
		if kept, err := s.Put(ctx, a); err != nil || !kept {
			t.Fatalf("%s was kept: %v, %v", id, kept, err)
		}
		return id
	}
	has := func(t *testing.T, s answers.Shelf, owner, id string, now time.Time) bool {
		t.Helper()
		body, err := s.Get(ctx, owner, id, now)
		if err != nil && !errors.Is(err, answers.ErrNone) {
			t.Fatal(err)
		}
		return err == nil && len(body) > 0
	}
	t.Run("what was put is given to its owner alone", func(t *testing.T) {
		at = noon
		s := open(t, limits)
		a, b, c := put(t, s, "key_a", "key_a", 1, 30), put(t, s, "key_b", "key_b", 2, 30), put(t, s, "", "10.0.0.1", 3, 30)
		for _, id := range []string{a, b, c, "resp_none", "'; drop table answer; --"} {
			for _, owner := range []string{"key_a", "key_b", "key_c", ""} {
				want := id == a && owner == "key_a" || id == b && owner == "key_b" || id == c && owner == ""
				if got := has(t, s, owner, id, noon); got != want {
					t.Errorf("%q reads %s: %v", owner, id, got)
				}
				if err := s.Drop(ctx, owner, id); !want && !errors.Is(err, answers.ErrNone) {
					t.Errorf("%q drops %s: %v", owner, id, err)
				} else if want && (err != nil || has(t, s, owner, id, noon)) {
					t.Errorf("%q cannot drop its own: %v", owner, err)
				}
			}
		}
		if body, err := s.Get(ctx, "key_a", put(t, s, "key_a", "key_a", 4, 9), noon); err != nil || !bytes.Equal(body, []byte("\x04\x00\xff\x04\x00\xff\x04\x00\xff")) {
			t.Errorf("%q, %v", body, err)
		}
	})
	t.Run("one has an end", func(t *testing.T) {
		at = noon
		s := open(t, limits)
		old := put(t, s, "", "u", 1, 30)
		at = noon.Add(30 * time.Minute)
		young := put(t, s, "", "u", 2, 30)
		later := noon.Add(time.Hour + time.Minute)
		if has(t, s, "", old, later) || !has(t, s, "", young, later) || !has(t, s, "", old, noon.Add(time.Hour)) {
			t.Error("an answer's age is not what decides")
		}
		if err := s.Prune(ctx, later); err != nil {
			t.Fatal(err)
		}
		if has(t, s, "", old, noon) || !has(t, s, "", young, noon) {
			t.Error("the old one was not forgotten, or the young one was")
		}
	})
	t.Run("there are not more than may be: the user's oldest go first, then the oldest of all", func(t *testing.T) {
		at = noon
		s := open(t, limits)
		first := put(t, s, "", "a", 0, 30)
		for i := range 30 {
			put(t, s, "", "b", i, 30)
		}
		if !has(t, s, "", first, noon) || has(t, s, "", "resp_b19", noon) || !has(t, s, "", "resp_b20", noon) {
			t.Error("by count, a user has not its share, or took another's")
		}
		for i := range 20 {
			put(t, s, "", "c", i, 3000)
		}
		if !has(t, s, "", first, noon) || has(t, s, "", "resp_c17", noon) || !has(t, s, "", "resp_c18", noon) {
			t.Error("by bytes, a user has not its share, or took another's")
		}
		for u := range 9 {
			for i := range 10 {
				put(t, s, "", fmt.Sprint("u", u), i, 30)
			}
		}
		if err := s.Prune(ctx, noon); err != nil {
			t.Fatal(err)
		}
		if has(t, s, "", first, noon) || has(t, s, "", "resp_u49", noon) || !has(t, s, "", "resp_u50", noon) || !has(t, s, "", "resp_u89", noon) {
			t.Error("all together are not the newest 40")
		}
	})
	t.Run("one that is larger than a share is not kept", func(t *testing.T) {
		s := open(t, limits)
		if kept, err := s.Put(ctx, answers.Answer{ID: "resp_x", Body: make([]byte, 10_000), Created: noon}); kept || err != nil {
			t.Errorf("kept: %v, %v", kept, err)
		}
		if has(t, s, "", "resp_x", noon) {
			t.Error("it is kept")
		}
	})
	t.Run("many at a time", func(t *testing.T) {
		s := open(t, answers.Limits{Age: time.Hour, Count: 4000, Bytes: 1 << 20, Share: 4})
		var all sync.WaitGroup
		for u := range 4 {
			all.Go(func() {
				for i := range 10 {
					id := fmt.Sprintf("resp_%d_%d", u, i)
					kept, err := s.Put(ctx, answers.Answer{ID: id, Owner: "k", User: fmt.Sprint(u % 2), Body: []byte(id), Created: noon})
					if body, got := s.Get(ctx, "k", id, noon); !kept || err != nil || got != nil || string(body) != id {
						t.Errorf("%s: %v %v %v %q", id, kept, err, got, body)
					}
				}
			})
		}
		all.Wait()
	})
}
