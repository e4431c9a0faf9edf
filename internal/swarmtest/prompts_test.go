package swarmtest

import (
	"slices"
	"testing"
	"testing/synctest"

	"whorl/client"
	"whorl/client/sample"
	"whorl/server"
	"whorl/swarm"
	"whorl/tensor"
)

// tables are prompts for the toy model.
func (r *trainRig) tables(tokens int, deep bool) *client.Prompts {
	h := r.ck.Config.Hidden
	p := &client.Prompts{Tokens: tokens, Shallow: wave(tokens*h, 4, 0.3)}
	if deep {
		p.Deep = wave(r.layer*tokens*h, 5, 0.2)
	}
	return p
}

// generate makes n ids after a prompt and names all logits; each may act between them.
func (r *trainRig) generate(t *testing.T, o client.SessionOptions, ask []int32, n int, each func(s *client.Session, i int)) ([]int32, string) {
	t.Helper()
	o.MaxLength = len(ask) + n
	s, err := r.e.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i := 0
	res, err := s.Generate(t.Context(), client.Request{Prompt: ask, MaxNewTokens: n, TopLogprobs: -1, IgnoreEOS: true, Hash: true}, func(client.Delta) error {
		if i++; each != nil {
			each(s, i)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Position() != len(ask)+n || s.MaxLength() != len(ask)+n || len(s.IDs()) != len(ask)+n || res.PromptTokens != len(ask) {
		t.Errorf("position %d of %d, %d ids, a prompt of %d: rows of prompts are seen", s.Position(), s.MaxLength(), len(s.IDs()), res.PromptTokens)
	}
	return res.IDs, res.LogitsHash
}

// Sessions with prompts, shallow and deep, give the bits of passes with the same rows, on every
// layout, in chunks, in two chains that are compared, and when a server dies or leaves in the
// middle of an answer.
func TestPromptedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := prompt(30, 3)
		for _, deep := range []bool{false, true} {
			one := newTrainRig(t, []swarm.Span{{Start: 0, End: 8}}, nil)
			p := one.tables(5, deep)
			ids, want := one.generate(t, client.SessionOptions{Prompts: p}, ask, 12, nil)
			if _, plain := one.generate(t, client.SessionOptions{}, ask, 12, nil); plain == want {
				t.Error("prompts change nothing")
			}
			other := one.tables(5, deep)
			other.Shallow[3] += 0.5
			if _, got := one.generate(t, client.SessionOptions{Prompts: other}, ask, 12, nil); got == want {
				t.Error("other prompts change nothing")
			}
			r := newTrainRig(t, append(thirds(8, 2), swarm.Span{Start: 1, End: 6}), nil)
			for name, o := range map[string]client.SessionOptions{"chunks": {Prompts: p, PrefillChunk: 4}, "two chains": {Prompts: p, Verify: 2}, "receipts": {Prompts: p, Receipts: true}} {
				if got, hash := r.generate(t, o, ask, 12, nil); hash != want || !slices.Equal(got, ids) {
					t.Errorf("deep %v, %s: %v and %s, want %v and %s", deep, name, got, hash, ids, want)
				}
			}
			lose := func(s *client.Session, i int) {
				switch i {
				case 3:
					r.w.Server(s.Route()[1].Peer).Node.Kill()
				case 7:
					r.w.Server(s.Route()[0].Peer).Drain(0)
				}
			}
			if got, hash := r.generate(t, client.SessionOptions{Prompts: p}, ask, 12, lose); hash != want || !slices.Equal(got, ids) {
				t.Errorf("deep %v, servers lost: %v and %s, want %v and %s", deep, got, hash, ids, want)
			}

			// A pass makes the same of the same rows.
			h := one.ck.Config.Hidden
			s, err := one.e.Open(t.Context(), client.SessionOptions{MaxLength: 40, Activations: tensor.ActF32, Prompts: p})
			if err != nil {
				t.Fatal(err)
			}
			score, err := s.Score(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			head := one.head(1)
			b := &client.Batch{Lengths: []int{5 + len(ask)}, Rows: append(slices.Clone(p.Shallow), make([]float32, len(ask)*h)...)}
			head.Embed(b.Rows[5*h:], ask)
			if deep {
				b.Prompt, b.Prompts, b.Shared = 5, p.Deep, true
			}
			m, _ := one.e.Remote(swarm.Span{Start: 0, End: 8}, client.RemoteOptions{})
			f, err := m.Forward(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			logits := make([]float32, head.Vocab())
			head.Logits(logits, f.Outputs[len(f.Outputs)-h:], 1, tensor.ActF32)
			if bitsOf(logits) != bitsOf(score.Next) {
				t.Errorf("deep %v: a session and a pass differ", deep)
			}
			// Cut back, also to nothing, and gone on with: the prompts stay (T27 of Petals).
			for _, to := range []int{2, 0} {
				if err := s.Truncate(to); err != nil {
					t.Fatal(err)
				}
				res, err := s.Generate(t.Context(), client.Request{Prompt: ask[to:], MaxNewTokens: 5, TopLogprobs: -1, IgnoreEOS: true, Hash: true}, nil)
				if err != nil {
					t.Fatal(err)
				}
				fresh, err := one.e.Open(t.Context(), client.SessionOptions{MaxLength: 40, Activations: tensor.ActF32, Prompts: p})
				if err != nil {
					t.Fatal(err)
				}
				again, err := fresh.Generate(t.Context(), client.Request{Prompt: ask, MaxNewTokens: 5, TopLogprobs: -1, IgnoreEOS: true, Hash: true}, nil)
				if err != nil || !slices.Equal(res.IDs, again.IDs) || res.LogitsHash != again.LogitsHash {
					t.Errorf("deep %v, cut to %d: %v, want %v (%v)", deep, to, res.IDs, again.IDs, err)
				}
				fresh.Close()
			}
			s.Close()
			beams := func(r *trainRig) []int32 {
				s, err := r.e.Open(t.Context(), client.SessionOptions{MaxLength: 40, Beams: 3, Prompts: p})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				res, err := s.Generate(t.Context(), client.Request{Prompt: ask, MaxNewTokens: 6, Beams: sample.BeamParams{Beams: 3, Return: 1}, TopLogprobs: -1, IgnoreEOS: true}, nil)
				if err != nil {
					t.Fatal(err)
				}
				more, err := s.Generate(t.Context(), client.Request{MaxNewTokens: 2, TopLogprobs: -1, IgnoreEOS: true}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return append(res.IDs, more.IDs...)
			}
			if a, b := beams(one), beams(newTrainRig(t, thirds(8, 1), nil)); !slices.Equal(a, b) {
				t.Errorf("deep %v: a search gives %v and %v", deep, a, b)
			}
		}
	})
}

// What one session has in front of blocks is not in another's rows, though both share iterations; a
// server that takes no prompts is passed by; and prompts of another model are refused.
func TestPromptedBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := prompt(30, 3)
		r := newTrainRig(t, thirds(8, 1), nil)
		p := r.tables(5, true)
		_, with := r.generate(t, client.SessionOptions{Prompts: p}, ask, 12, nil)
		_, without := r.generate(t, client.SessionOptions{}, ask, 12, nil)
		done := make(chan struct{})
		for i := range 4 {
			go func() {
				defer func() { done <- struct{}{} }()
				o, want := client.SessionOptions{}, without
				if i%2 == 0 {
					o.Prompts, want = p, with
				}
				if _, got := r.generate(t, o, ask, 12, nil); got != want {
					t.Errorf("session %d: logits %s, want %s", i, got, want)
				}
			}()
		}
		for range 4 {
			<-done
		}
		mixed := newTrainRig(t, thirds(8, 2), func(id swarm.PeerID, c *server.Config) { c.Passes.Off = id == "server1" })
		for range 6 {
			if _, got := mixed.generate(t, client.SessionOptions{Prompts: p}, ask, 12, nil); got != with {
				t.Errorf("beside a server without prompts: %s, want %s", got, with)
			}
		}
		for _, d := range mixed.w.Net.Dials() {
			if d.To == "server1" {
				t.Error("a server that takes no prompts was asked")
			}
		}
		bad := r.tables(5, true)
		bad.Deep = bad.Deep[1:]
		if _, err := r.e.Open(t.Context(), client.SessionOptions{MaxLength: 9, Prompts: bad}); swarm.AsError(err).Verdict != swarm.Caller {
			t.Error(err)
		}
	})
}
