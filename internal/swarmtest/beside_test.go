package swarmtest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"whorl/bench"
	"whorl/client"
	"whorl/server"
	"whorl/server/blocks"
	"whorl/swarm"
)

// Clients behind 5 and 20 ms, each way, do not slow those beside them by more than a tenth: real
// servers and sessions, with iterations that take 10 ms and half of one for each row.
func TestFarClientsDoNotSlowNearOnes(t *testing.T) {
	for _, near := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) { farClients(t, near) })
	}
}

// While a prompt is computed, answers that run keep half of their rate, 95 % of their tokens come within
// 2.5 times the usual time, and it takes at most 2.5 times its time alone.
func TestPromptBesideRunningAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := users(t)
		b, err := bench.MeasureBeside(t.Context(), at("near"), bench.BesideOptions{
			Clients: 4, Load: bench.ServingOptions{Prompt: 4, Tokens: 240, Vocab: 250}, Rounds: 3, Window: 500 * time.Millisecond, Prompt: 240,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("alone %.1f tok/s, %.1f ms between; beside it %.1f, %.1f, p95 %.1f; the prompt %.0f ms, %.0f alone", b.Without.TokS, b.Without.BetweenMS.Median,
			b.With.TokS, b.With.BetweenMS.Median, b.With.BetweenMS.P95, *b.PromptMS, *b.PromptAloneMS)
		if b.Rate < 0.5 || b.P95 > 2.5 || *b.Prompt > 2.5 {
			t.Errorf("%.2f of the rate, p95 %.2f times the usual, the prompt %.2f times its time alone", b.Rate, b.P95, *b.Prompt)
		}
	})
}

// users is a swarm of one server, and how somebody at a node asks it.
func users(t *testing.T) func(id swarm.PeerID) bench.Ask {
	r := openModel(t, toy)
	w := NewWorld(t, r.manifest())
	l, err := blocks.NewLoader(r.ck, r.device(1), blocks.Options{StepRows: 512, KV: r.kv})
	if err != nil {
		t.Fatal(err)
	}
	w.Start("server", swarm.Span{End: r.ck.Config.Layers}, slowLoader{server.FromBlocks(l)}, func(c *server.Config) { c.Memory = 4 << 30 })
	w.Net.SetDelay(func(from, to swarm.PeerID) time.Duration {
		far := map[swarm.PeerID]time.Duration{"five": 5 * time.Millisecond, "twenty": 20 * time.Millisecond}
		return far[from] + far[to]
	})
	head := r.head(1)
	return func(id swarm.PeerID) bench.Ask {
		e := w.EngineAt(id, slowHead{head}, head.Vocab(), func(c *client.Config) { c.MaxLength = r.ck.Config.LongestSession() })
		return func(ctx context.Context, prompt []int32, tokens int, piece func(int)) error {
			s, err := e.Open(ctx, client.SessionOptions{MaxLength: len(prompt) + tokens})
			if err != nil {
				return err
			}
			defer s.Close()
			_, err = s.Generate(ctx, client.Request{Prompt: prompt, MaxNewTokens: tokens, IgnoreEOS: true, TopLogprobs: -1}, func(d client.Delta) error {
				piece(len(d.IDs))
				return nil
			})
			return err
		}
	}
}

func farClients(t *testing.T, near int) {
	at := users(t)
	b, err := bench.MeasureBeside(t.Context(), at("near"), bench.BesideOptions{
		Clients: near, Load: bench.ServingOptions{Prompt: 4, Tokens: 200, Vocab: 250}, Rounds: 2, Window: 2 * time.Second,
		Far: []bench.Far{{Delay: 5 * time.Millisecond, Ask: at("five")}, {Delay: 20 * time.Millisecond, Ask: at("twenty")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d near: %.1f tok/s, %.1f ms between, p95 %.1f; with the others %.1f, %.1f, %.1f", near,
		b.Without.TokS, b.Without.BetweenMS.Median, b.Without.BetweenMS.P95, b.With.TokS, b.With.BetweenMS.Median, b.With.BetweenMS.P95)
	for _, f := range b.Far {
		t.Logf("%g ms each way: %.1f tok/s, %.1f ms between, p95 %.1f", f.DelayMS, f.TokS, f.BetweenMS.Median, f.BetweenMS.P95)
	}
	if b.Rate < 0.9 {
		t.Errorf("%d near ones keep %.2f of their rate, want 0.9", near, b.Rate)
	}
}
