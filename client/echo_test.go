package client_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"

	"whorl/client"
)

// A prompt's log-probabilities are those that generating it gave, however many pieces it is
// computed in; nothing is computed for nothing.
func TestEchoMeasuresThePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, "a 0:3", "b 3:6")
		prompt := make([]int32, 530) // more than one piece
		for i := range prompt {
			prompt[i] = int32(i*7) % vocab
		}
		turn := func(r client.Request) client.Result {
			s := w.open(t, client.SessionOptions{MaxLength: 1000})
			defer s.Close()
			res, err := s.Generate(context.Background(), r, nil)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		first := turn(client.Request{Prompt: prompt, MaxNewTokens: 20, TopLogprobs: 2, IgnoreEOS: true})
		whole := append(prompt, first.IDs...)
		scores := turn(client.Request{Prompt: whole, TopLogprobs: 2, Echo: true})
		if len(scores.IDs) > 0 || len(scores.Echo.Logprobs) != len(whole) {
			t.Fatalf("%d ids, %d of %d log-probabilities", len(scores.IDs), len(scores.Echo.Logprobs), len(whole))
		}
		for i, lp := range scores.Echo.Logprobs {
			if lp.ID != whole[i] {
				t.Fatalf("id %d is %d, want %d", i, lp.ID, whole[i])
			}
			if k := i - len(prompt); k >= 0 && (lp.Logprob != first.Logprobs[k].Logprob || lp.Top[1] != first.Logprobs[k].Top[1]) {
				t.Errorf("id %d: %+v, generated with %+v", i, lp, first.Logprobs[k])
			}
		}
		on := turn(client.Request{Prompt: whole[:540], MaxNewTokens: 10, TopLogprobs: 0, IgnoreEOS: true, Echo: true})
		if len(on.IDs) != 10 || on.IDs[0] != whole[540] || on.IDs[9] != whole[549] || math.IsNaN(on.Logprobs[0].Logprob) {
			t.Errorf("after its prompt was measured the answer is %v, want %v", on.IDs, whole[540:])
		}
		silent := turn(client.Request{Prompt: prompt, TopLogprobs: -1, Echo: true})
		if silent.Echo == nil || silent.Echo.Logprobs != nil || len(silent.IDs) > 0 {
			t.Errorf("%+v", silent)
		}
	})
}
