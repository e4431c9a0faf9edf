package sched

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A script has one command a line; "next BUDGET" prints the iteration it gives. Sessions
// are named by a digit.
//
//	open SESSION PEER KEY | push SESSION ROWS... | beams SESSION ROWS | stop SESSION | ready SESSION |
//	clear SESSION | close SESSION | next BUDGET
func play(t *testing.T, script string) string {
	t.Helper()
	q := New()
	var out strings.Builder
	item := uint64(0)
	for line := range strings.Lines(script) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		var n int
		fmt.Sscan(f[1], &n)
		id := Session(n)
		switch f[0] {
		case "open":
			var k int
			fmt.Sscan(f[3], &k)
			q.Open(id, f[2], Key{Start: k, End: k + 1})
		case "push":
			for _, r := range f[2:] {
				var rows int
				fmt.Sscan(r, &rows)
				item++
				q.Push(0, id, item, rows, classOf(rows))
			}
		case "beams":
			var rows int
			fmt.Sscan(f[2], &rows)
			item++
			q.Push(0, id, item, rows, Decode)
		case "stop":
			q.Ready(id, false)
		case "ready":
			q.Ready(id, true)
		case "clear":
			q.Clear(id)
		case "close":
			q.Close(id)
		case "next":
			var parts []string
			for _, g := range iteration(q, n) {
				part := fmt.Sprintf("%d:%d", g.Session, g.Rows)
				if !g.Last {
					part += "+"
				}
				parts = append(parts, part)
			}
			fmt.Fprintln(&out, strings.Join(parts, " "))
		default:
			t.Fatalf("unknown command %q", line)
		}
	}
	return out.String()
}

// iteration is what Next gives where time stands still, so that nothing is known of anybody.
func iteration(q *Queue, budget int) []Grant {
	grants, _ := q.Next(0, budget)
	return grants
}

// classOf is that of rows of one sequence.
func classOf(rows int) Class {
	if rows == 1 {
		return Decode
	}
	return Prefill
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"nothing", `
			open 1 a 0
			next 8`, "\n"},
		{"all decodes share an iteration", `
			open 1 a 0
			open 2 b 0
			open 3 c 0
			push 2 1
			push 1 1
			push 3 1
			next 8
			next 8`, "2:1 1:1 3:1\n\n"},
		{"one item of a session at a time", `
			open 1 a 0
			push 1 1 1 4
			next 8
			next 8
			next 8`, "1:1\n1:1\n1:4\n"},
		{"decodes first, prefill fills the rest in pieces", `
			open 1 a 0
			open 2 b 0
			open 3 c 0
			push 1 20
			push 2 1
			push 3 1
			next 8
			next 8
			next 8`, "2:1 3:1 1:6+\n1:8+\n1:6\n"},
		{"a step of beams is a decode, and may be taken in pieces", `
			open 1 a 0
			open 2 b 0
			open 3 c 0
			push 1 20
			beams 2 5
			push 3 1
			next 16
			next 16
			beams 2 5
			next 2
			next 8`, "2:5 3:1 1:10+\n1:10\n2:2+\n2:3\n"},
		{"an eighth is kept for prefill", `
			open 1 a 0
			open 2 b 0
			open 3 c 0
			open 4 d 0
			push 1 1
			push 2 1
			push 3 1
			push 4 100
			next 3`, "1:1 2:1 4:1+\n"},
		{"what prefill leaves, decodes take", `
			open 1 a 0
			open 2 a 0
			open 3 a 0
			push 1 2
			push 2 1
			push 3 1
			next 16`, "2:1 3:1 1:2\n"},
		{"other keys wait for their turn, the oldest key first", `
			open 1 a 5
			open 2 b 0
			open 3 c 5
			push 2 1
			push 1 1
			push 3 1
			next 8
			push 2 1
			next 8
			next 8`, "2:1\n1:1 3:1\n2:1\n"},
		{"two prompts advance side by side", `
			open 1 a 0
			open 2 b 0
			push 1 300
			push 2 300
			next 256
			next 256
			next 256`, "1:128+ 2:128+\n1:128+ 2:128+\n1:44 2:44\n"},
		{"peers share, however many sessions they have", `
			open 1 a 0
			open 2 a 0
			open 3 a 0
			open 4 b 0
			push 1 200
			push 2 200
			push 3 200
			push 4 200
			next 256
			next 256`, "1:128+ 4:128+\n1:72 4:72 2:112+\n"},
		{"an idle peer saves no credit", `
			open 1 a 0
			open 2 b 0
			push 1 512
			next 512
			push 1 512
			push 2 512
			next 256`, "1:512\n1:96+ 2:160+\n"},
		{"who is not ready is passed by and loses nothing", `
			open 1 a 0
			open 2 b 0
			push 1 1
			push 2 1
			stop 1
			next 8
			ready 1
			next 8`, "2:1\n1:1\n"},
		{"cleared and closed sessions are gone", `
			open 1 a 0
			open 2 b 0
			push 1 5 5
			push 2 1
			clear 1
			close 2
			close 2
			next 8
			push 1 2
			next 8`, "\n1:2\n"},
	} {
		if got := play(t, c.script); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// Whatever is pushed comes out once, in order per session, within the budget, and the
// oldest ready item moves in every iteration.
func TestNothingIsLostAndNothingStarves(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		q := New()
		type entry struct {
			id   uint64
			left int
		}
		sessions := 1 + r.IntN(12)
		queued := make([][]entry, sessions)
		keys := make([]int, sessions)
		for s := range sessions {
			keys[s] = r.IntN(2)
			q.Open(Session(s), fmt.Sprint("peer", r.IntN(3)), Key{Start: keys[s]})
		}
		next := uint64(0)
		budget := 2 + r.IntN(100)
		for step := range 400 {
			if step < 200 {
				for range r.IntN(4) {
					s, rows := r.IntN(sessions), 1
					if r.IntN(2) == 0 {
						rows = 1 + r.IntN(200)
					}
					next++
					q.Push(0, Session(s), next, rows, classOf(rows))
					queued[s] = append(queued[s], entry{next, rows})
				}
			}
			oldest := uint64(0)
			for _, list := range queued {
				if len(list) > 0 && (oldest == 0 || list[0].id < oldest) {
					oldest = list[0].id
				}
			}
			total, moved := 0, false
			seen := map[Session]bool{}
			grants := iteration(q, budget)
			for _, g := range grants {
				list := queued[g.Session]
				if seen[g.Session] || len(list) == 0 || list[0].id != g.Item || g.Rows < 1 || g.Rows > list[0].left || g.Last != (g.Rows == list[0].left) {
					t.Fatalf("seed %d: grant %+v of %v", seed, g, list)
				}
				if keys[g.Session] != keys[grants[0].Session] {
					t.Fatalf("seed %d: two keys in an iteration", seed)
				}
				seen[g.Session] = true
				moved = moved || g.Item == oldest
				total += g.Rows
				if list[0].left -= g.Rows; g.Last {
					queued[g.Session] = list[1:]
				}
			}
			if total > budget || oldest != 0 && !moved {
				t.Fatalf("seed %d: %d rows of a budget of %d, the oldest item %d moved: %v", seed, total, budget, oldest, moved)
			}
		}
		for range 100_000 {
			if len(iteration(q, budget)) == 0 {
				break
			}
		}
		if items, rows := q.Len(); items != 0 || rows != 0 {
			t.Fatalf("seed %d: %d items and %d rows are left", seed, items, rows)
		}
		for s := range sessions {
			q.Close(Session(s))
		}
		if len(q.peers) != 0 || len(q.sessions) != 0 {
			t.Fatalf("seed %d: peers or sessions stay behind", seed)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	q := New()
	for s := range 64 {
		q.Open(Session(s), fmt.Sprint(s%8), Key{})
	}
	b.ReportAllocs()
	id := uint64(0)
	for b.Loop() {
		for s := range 64 {
			id++
			q.Push(0, Session(s), id, 1, Decode)
		}
		iteration(q, 512)
	}
}
