package view

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func blocks(states ...string) (out []Block) {
	for i, s := range states {
		b := Block{Index: i, End: i + 1, State: s, Link: "x"}
		if n, ok := strings.CutPrefix(s, "online"); ok {
			b.State, b.Holders = "online", len(n)+1 // "online+" has two
		}
		out = append(out, b)
	}
	return out
}

func TestGroupShowsTheWorst(t *testing.T) {
	tell := func(bs []Block) string {
		var out []string
		for _, b := range bs {
			out = append(out, fmt.Sprintf("%d-%d %s %d", b.Index, b.End-1, b.State, b.Holders))
		}
		return strings.Join(out, ", ")
	}
	for _, c := range []struct {
		in   []Block
		most int
		want string
	}{
		{blocks("online", "missing"), 2, "0-0 online 1, 1-1 missing 0"},
		{blocks("online+", "online", "online", "missing", "joining", "online"), 3, "0-1 online 1, 2-3 missing 0, 4-5 joining 0"},
		{blocks("joining", "missing", "unknown"), 1, "0-2 missing 0"},
		{blocks("online", "online", "unknown", "online", "online"), 2, "0-1 online 1, 2-4 unknown 0"},
		{nil, 4, ""},
	} {
		if got := tell(Group(c.in, c.most)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	group := Group(blocks("online", "missing", "online", "online"), 2)[0]
	if group.Name() != "Blocks 0 to 1" || group.Link != "" {
		t.Errorf("group %+v: want a name of both and no link", group)
	}
}

func TestGlyphsTellStatesApart(t *testing.T) {
	seen := map[string]string{}
	for _, b := range blocks("online", "online+", "joining", "missing", "unknown") {
		if other, ok := seen[b.Glyph()]; ok {
			t.Errorf("%s looks like %s", b.State, other)
		}
		seen[b.Glyph()] = b.State
	}
	tones := map[string]bool{}
	for _, tone := range []Tone{Good, Warn, Bad, Idle} {
		tones[Pill{Tone: tone}.Glyph()] = true
	}
	if len(tones) != 4 {
		t.Errorf("four tones have %d shapes", len(tones))
	}
}

func TestFlower(t *testing.T) {
	f := NewFlower(blocks("online", "online+", "missing", "online"))
	if f.Held != 3 || f.Of != 4 || !f.Known || len(f.Petals) != 4 || f.Petals[0].Rotate != "rotate(45.00)" || f.Petals[1].Spare != "2" {
		t.Errorf("flower %+v", f)
	}
	if f.Inner == "" || len(f.spares()) != 1 {
		t.Errorf("%d petals of spare holders, want 1", len(f.spares()))
	}
	if f := NewFlower(blocks("online", "missing")); f.Inner != "" || len(f.spares()) != 0 {
		t.Errorf("an inner whorl without spare holders: %+v", f)
	}
	if f := NewFlower(make([]Block, 4096)); len(f.Petals) != maxPetals || f.Of != 4096 {
		t.Errorf("a flower of 4096 blocks has %d petals", len(f.Petals))
	}
	if f := NewFlower(blocks("online", "unknown")); f.Known {
		t.Error("a flower of unknown blocks is known")
	}
	if f := NewFlower(nil); len(f.Petals) != 0 {
		t.Errorf("an empty flower has petals: %+v", f)
	}
}

func TestChart(t *testing.T) {
	t0 := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	point := func(second int, v ...float64) Point {
		p := Point{At: t0.Add(time.Duration(second) * time.Second)}
		if len(v) > 0 {
			p.Value = &v[0]
		}
		return p
	}
	zero := func(v float64) bool { return v == 0 }
	for _, c := range []struct {
		what, line, bad, top string
		points               []Point
	}{
		{"nothing", "", "[]", "2", nil},
		{"not measured", "", "[]", "2", []Point{point(0), point(10)}},
		{"a step that holds until the next", "M0.0 50.0H100.0V0.0H300.0", "[]", "2", []Point{point(0, 1), point(10, 2)}},
		{"a gap is not drawn over", "M0.0 50.0H200.0M500.0 50.0H700.0", "[]", "2", []Point{point(0, 1), point(50, 1)}},
		{"nor is what was not measured", "M0.0 50.0H200.0M200.0 50.0H400.0", "[]", "2", []Point{point(0, 1), point(10), point(20, 1)}},
		{"a bad stretch", "M0.0 50.0H100.0V100.0H200.0V100.0H300.0V50.0H500.0", "[{100.0 200.0}]", "2", []Point{point(0, 1), point(10, 0), point(20, 0), point(30, 1)}},
		{"bad at the end", "M900.0 100.0H1000.0", "[{900.0 100.0}]", "2", []Point{point(90, 0)}},
		{"a higher scale", "M0.0 25.0H200.0", "[]", "400", []Point{point(0, 300)}},
	} {
		ch := NewChart(c.points, t0, t0.Add(100*time.Second), 20*time.Second, zero)
		if ch.Line != c.line || fmt.Sprint(ch.Bad) != c.bad || ch.Top != c.top || ch.Empty != (c.line == "") {
			t.Errorf("%s:\n got %q bad %v top %s empty %v\nwant %q bad %s top %s", c.what, ch.Line, ch.Bad, ch.Top, ch.Empty, c.line, c.bad, c.top)
		}
		if strings.Count(ch.Area, "Z") != strings.Count(ch.Line, "M") {
			t.Errorf("%s: area %q of line %q is not closed", c.what, ch.Area, ch.Line)
		}
	}
}
