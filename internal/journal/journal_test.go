package journal

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func texts(lines []Line) string {
	var out []string
	for _, l := range lines {
		out = append(out, string(l.Data))
	}
	return strings.Join(out, " ")
}

func TestAfter(t *testing.T) {
	l := New(3, 1<<10)
	all, more, ok := l.After("")
	if len(all) != 0 || !ok {
		t.Fatalf("an empty log has %v", all)
	}
	at := time.Unix(1750000000, 0)
	l.Add(at, "a", 1)
	select {
	case <-more:
	default:
		t.Error("who waits is not told of a line")
	}
	l.Add(at, "b", 2)
	all, _, _ = l.After("")
	if texts(all) != "1 2" {
		t.Fatalf("%v", all)
	}
	first := all[0].ID
	l.Add(at, "c", 3)
	l.Add(at, "d", 4)
	l.Add(at, "e", 5)
	all, _, _ = l.After("")
	last := all[2].ID
	for _, c := range []struct {
		after, want string
		ok          bool
	}{
		{"", "3 4 5", true},
		{first, "3 4 5", true}, // line 2 is lost
		{all[0].ID, "4 5", true},
		{last, "", true},
		{l.run + "-99", "", true},
		{"00000000-4", "3 4 5", true}, // of another run
		{"4", "", false}, {"-", "", false}, {"00000000-", "", false}, {"00000000--1", "", false}, {"x-4", "", false},
	} {
		got, _, ok := l.After(c.after)
		if texts(got) != c.want || ok != c.ok {
			t.Errorf("after %q: %s, %v", c.after, texts(got), ok)
		}
	}
}

func TestBytes(t *testing.T) {
	l := New(1000, 160)
	for i := range 100 {
		l.Add(time.Time{}, "x", fmt.Sprintf("%07d", i)) // 9 bytes with quotes
	}
	all, _, _ := l.After("")
	if len(all) != 17 || texts(all[16:]) != `"0000099"` {
		t.Errorf("%d lines of %d bytes: %s", len(all), l.bytes, texts(all))
	}
	for _, data := range []any{strings.Repeat("x", 100), func() {}} {
		l.Add(time.Time{}, "x", data)
		all, _, _ = l.After(all[len(all)-1].ID)
		if !strings.Contains(texts(all), "omitted") {
			t.Errorf("%s", texts(all))
		}
	}
}
