package plan

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		add  []Range
		cut  int
		want string
	}{
		{[]Range{{0, 4}, {4, 6}}, 99, "[{0 6}]"},
		{[]Range{{4, 6}, {0, 2}}, 99, "[{0 2} {4 6}]"},
		{[]Range{{4, 6}, {0, 2}, {2, 4}}, 99, "[{0 6}]"},
		{[]Range{{4, 6}, {0, 2}, {1, 9}}, 99, "[{0 9}]"},
		{[]Range{{0, 2}, {4, 6}}, 5, "[{0 2} {4 5}]"},
		{[]Range{{0, 2}, {4, 6}}, 4, "[{0 2}]"},
		{[]Range{{3, 3}}, 9, "[]"},
	} {
		var r Ranges
		for _, a := range c.add {
			r = r.Add(a.From, a.To)
		}
		if got := fmt.Sprint(r.Cut(c.cut)); got != c.want {
			t.Errorf("add %v, cut %d: %s, want %s", c.add, c.cut, got, c.want)
		}
	}
}

func TestRecover(t *testing.T) {
	full := Ranges{{0, 100}}
	for _, c := range []struct {
		name         string
		stages       []Stage
		target, want int
		moves        []Move
	}{
		{
			"the middle stage died in decode: its inputs are known",
			[]Stage{{Position: 100}, {Known: full}, {Position: 99}}, 100, 99,
			[]Move{{100, Range{100, 100}, 100}, {0, Range{0, 100}, 99}, {99, Range{99, 99}, 99}},
		},
		{
			"the first stage died: token ids are known",
			[]Stage{{}, {Position: 99, Known: full}, {Position: 99}}, 100, 99,
			[]Move{{0, Range{0, 100}, 100}, {99, Range{99, 100}, 99}, {99, Range{99, 99}, 99}},
		},
		{
			"the last stage died with the result",
			[]Stage{{Position: 100}, {Position: 100}, {Known: full}}, 100, 99,
			[]Move{{100, Range{100, 100}, 100}, {100, Range{100, 100}, 100}, {0, Range{0, 100}, 99}},
		},
		{
			"a gap in the journal rolls the stage before it back",
			[]Stage{{Position: 100}, {Position: 100, Known: full}, {Known: Ranges{{0, 40}, {60, 100}}}}, 100, 99,
			[]Move{{100, Range{100, 100}, 100}, {40, Range{40, 100}, 40}, {0, Range{0, 40}, 99}},
		},
		{
			"without any journal everything is computed again",
			[]Stage{{Position: 100}, {Position: 100}, {}}, 100, 99,
			[]Move{{0, Range{0, 100}, 0}, {0, Range{0, 0}, 0}, {0, Range{0, 0}, 99}},
		},
		{
			"a dead span is taken over by two stages",
			[]Stage{{Position: 100}, {Known: full}, {}, {Position: 99}}, 100, 99,
			[]Move{{100, Range{100, 100}, 100}, {0, Range{0, 100}, 0}, {0, Range{0, 0}, 99}, {99, Range{99, 99}, 99}},
		},
		{
			"all died: the history is computed by all at the same time",
			[]Stage{{}, {Known: full}, {Known: full}}, 100, 99,
			[]Move{{0, Range{0, 100}, 0}, {0, Range{0, 0}, 0}, {0, Range{0, 0}, 99}},
		},
		{
			"the first two died: the second has it from the first",
			[]Stage{{}, {Known: full}, {Position: 99, Known: full}}, 100, 99,
			[]Move{{0, Range{0, 100}, 0}, {0, Range{0, 0}, 100}, {99, Range{99, 100}, 99}},
		},
	} {
		if got := Recover(c.stages, c.target, c.want); !reflect.DeepEqual(got, c.moves) {
			t.Errorf("%s:\n got %v\nwant %v", c.name, got, c.moves)
		}
	}
}

// TestRecoverReaches carries plans out on a model of a chain and checks that no stage
// sees a gap and that every wanted output arrives.
func TestRecoverReaches(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(6)
		target := 1 + r.IntN(50)
		want := r.IntN(target + 1)
		stages := make([]Stage, n)
		for i := range stages {
			stages[i].Position = r.IntN(target + 1)
			for range r.IntN(4) {
				a := r.IntN(target)
				stages[i].Known = stages[i].Known.Add(a, a+r.IntN(target-a+1))
			}
		}
		moves := Recover(stages, target, want)
		pos := make([]int, n)
		for i, m := range moves {
			if m.Truncate > stages[i].Position {
				t.Fatalf("seed %d: stage %d truncates to %d beyond %d", seed, i, m.Truncate, stages[i].Position)
			}
			pos[i] = m.Truncate
		}
		wanted := want
		var run func(i, from, to int)
		run = func(i, from, to int) { // rows [from,to) arrive at stage i
			if i == n {
				if from > wanted {
					t.Fatalf("seed %d: outputs %d:%d arrive, %d is wanted", seed, from, to, wanted)
				}
				wanted = max(wanted, to)
				return
			}
			if from > pos[i] {
				t.Fatalf("seed %d: gap at stage %d: rows %d:%d at %d", seed, i, from, to, pos[i])
			}
			from = max(from, pos[i])
			if from >= to {
				return
			}
			pos[i] = to
			if from = max(from, moves[i].Skip); from < to {
				run(i+1, from, to)
			}
		}
		for i := n - 1; i >= 0; i-- {
			f := moves[i].Feed
			if i > 0 && f.From < f.To && stages[i].Known.KnownFrom(f.From) < f.To {
				t.Fatalf("seed %d: stage %d is fed unknown rows %v of %v", seed, i, f, stages[i].Known)
			}
			run(i, f.From, f.To)
		}
		for i, p := range pos {
			if p != target {
				t.Fatalf("seed %d: stage %d ends at %d of %d\n%v\n%v", seed, i, p, target, stages, moves)
			}
		}
		if wanted != target {
			t.Fatalf("seed %d: outputs end at %d of %d", seed, wanted, target)
		}
	}
}

func TestChunk(t *testing.T) {
	p := DefaultChunkParams()
	for _, c := range []struct {
		n, stages int
		stage     time.Duration
		want      int
	}{
		{1000, 1, time.Second, 512},
		{1000, 3, 0, 512},
		{1000, 3, 1000 * time.Millisecond, 32}, // k = sqrt(2*1000/1) = 45
		{1000, 3, 50 * time.Millisecond, 100},  // k = 10
		{10, 3, 50 * time.Millisecond, 32},
	} {
		if got := p.Chunk(c.n, c.stages, 4096, c.stage, time.Millisecond); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if got := p.Chunk(1000, 1, 1<<20, 0, 0); got != 8 {
		t.Errorf("8 MiB of 1 MiB rows: %d", got)
	}
}
