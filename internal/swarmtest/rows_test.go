package swarmtest

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"whorl/client"
	"whorl/swarm"
	"whorl/tensor"
)

// A session of rows gives the bits of a pass with the same rows, through any range of blocks and on
// every layout, in whatever steps the rows come, with prompts in front of blocks, cut back, and
// when servers die or leave between its steps.
func TestRowSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newTrainRig(t, []swarm.Span{{Start: 0, End: 8}}, nil)
		h, n := one.ck.Config.Hidden, 40
		rows := wave(n*h, 1, 1)
		for _, span := range []swarm.Span{{Start: 0, End: 8}, {Start: 1, End: 7}, {Start: 3, End: 8}, {Start: 0, End: 2}} {
			for _, prompt := range []int{0, 3} {
				name := fmt.Sprintf("blocks %v, prompts of %d", span, prompt)
				deep := wave(span.Len()*prompt*h, 2, 0.1)
				m, err := one.e.Remote(span, client.RemoteOptions{})
				if err != nil {
					t.Fatal(err)
				}
				out, err := m.Outputs(t.Context(), &client.Batch{Lengths: []int{n}, Rows: rows, Prompt: prompt, Prompts: deep, Shared: true})
				if err != nil {
					t.Fatal(err)
				}
				r := newTrainRig(t, append(thirds(8, 2), swarm.Span{Start: 1, End: 6}, swarm.Span{Start: 0, End: 4}, swarm.Span{Start: 4, End: 8}), nil)
				s, err := r.e.OpenRows(t.Context(), client.RowOptions{Blocks: span, MaxLength: n, Activations: tensor.ActF32, Prompt: prompt, Prompts: deep})
				if err != nil {
					t.Fatal(err)
				}
				for i, hop := range s.Route() {
					if i == 0 && hop.Span.Start != span.Start {
						t.Errorf("%s: begins at %v", name, hop.Span)
					}
				}
				step := func(to int) {
					t.Helper()
					from := s.Position()
					got, err := s.Step(t.Context(), rows[from*h:to*h])
					if err != nil {
						t.Fatalf("%s, rows %d to %d: %v", name, from, to, err)
					}
					if !slices.Equal(got, out[from*h:to*h]) {
						t.Errorf("%s, rows %d to %d differ", name, from, to)
					}
				}
				step(2)
				step(11)
				step(12)
				r.w.Server(s.Route()[0].Peer).Node.Kill()
				step(13)
				step(30)
				route := s.Route()
				r.w.Server(route[len(route)-1].Peer).Drain(0)
				step(31)
				if err := s.Truncate(1); err != nil || s.Position() != 1 {
					t.Errorf("cut to %d: %v", s.Position(), err)
				}
				step(20)
				if _, err := s.Step(t.Context(), make([]float32, 21*h)); swarm.CodeOf(err) != swarm.CodeTooLong {
					t.Errorf("beyond the budget: %v", err)
				}
				if _, err := s.Step(t.Context(), make([]float32, h+1)); swarm.CodeOf(err) != swarm.CodeBadRequest {
					t.Errorf("half a row: %v", err)
				}
				step(n)
				if s.Reroutes() == 0 {
					t.Errorf("%s: nothing was lost", name)
				}
				s.Close()
				if _, err := s.Step(t.Context(), rows[:h]); err == nil {
					t.Error("a step of a closed session")
				}
			}
		}
	})
}

// What opens no session of rows is the caller's to mend.
func TestRowSessionsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrainRig(t, thirds(8, 1), nil)
		h := r.ck.Config.Hidden
		for name, o := range map[string]client.RowOptions{
			"no such blocks":    {Blocks: swarm.Span{Start: 4, End: 9}, MaxLength: 8},
			"no blocks":         {Blocks: swarm.Span{Start: 4, End: 4}, MaxLength: 8},
			"no length":         {},
			"too long":          {MaxLength: 1 << 20},
			"prompts lack rows": {MaxLength: 8, Prompt: 2, Prompts: make([]float32, h)},
			"prompts too long":  {MaxLength: 8, Prompt: 9, Prompts: make([]float32, 8*9*h)},
		} {
			if s, err := r.e.OpenRows(t.Context(), o); err == nil || swarm.AsError(err).Verdict != swarm.Caller {
				t.Errorf("%s: %v, %v", name, s, err)
			}
		}
	})
}

// Gradients without outputs have the bits of those with them, and what a pass keeps is asked for.
func TestGradientsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := swarm.Span{Start: 0, End: 8}
		r := newTrainRig(t, thirds(8, 1), nil)
		b := r.batch(all, 4, true)
		want, err := r.pass(t.Context(), all, client.RemoteOptions{Rows: 20}, b)
		if err != nil {
			t.Fatal(err)
		}
		kept := make(chan int64, 100)
		m, _ := r.e.Remote(all, client.RemoteOptions{Rows: 20, Keep: func(n int64) error { kept <- n; return nil }})
		out, err := m.Outputs(t.Context(), b)
		if err != nil || len(kept) != 0 {
			t.Fatal(err, len(kept))
		}
		grads := wave(len(out), 3, 1)
		rows, prompts, err := m.Gradients(t.Context(), b, grads)
		if err != nil {
			t.Fatal(err)
		}
		if got := bitsOf(out, rows, prompts); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		close(kept)
		var sum int64
		for n := range kept {
			sum += n
		}
		if want := int64(2 * 4 * len(b.Rows)); sum != want { // in front of two of three servers
			t.Errorf("kept %d bytes, want %d", sum, want)
		}
		full := swarm.Errorf(swarm.CodeTooMany, swarm.Again, "no")
		m, _ = r.e.Remote(all, client.RemoteOptions{Keep: func(int64) error { return full }})
		if _, _, err := m.Gradients(t.Context(), b, grads); err != full {
			t.Errorf("without memory: %v", err)
		}
	})
}
