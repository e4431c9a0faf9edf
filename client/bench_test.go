package client_test

import (
	"testing"

	"whorl/client"
)

// BenchmarkToken is a decoded token through three stages of a swarm in memory: what client,
// streams and the fake servers cost together.
func BenchmarkToken(b *testing.B) {
	w := newWorld(b, func(c *client.Config) { c.Timeouts = client.DefaultTimeouts() }, "a 0:2", "b 2:4", "c 4:6")
	s, err := w.engine.Open(b.Context(), client.SessionOptions{MaxLength: 64})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Generate(b.Context(), client.Request{Prompt: prompt(8), MaxNewTokens: 1, TopLogprobs: -1}, nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Generate(b.Context(), client.Request{MaxNewTokens: 32, TopLogprobs: -1}, nil); err != nil {
			b.Fatal(err)
		}
		if err := s.Truncate(9); err != nil {
			b.Fatal(err)
		}
	}
}
