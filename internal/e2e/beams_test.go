//go:build e2e

package e2e

import (
	"strconv"
	"testing"
)

// A beam search through processes gives the answers of one process, from the command line
// and over HTTP, also when a server of the route is killed while it runs.
func TestBeams(t *testing.T) {
	const steps = 200 // so many that a server can be found and killed before they are over
	r := refs(t, 24)[0]
	type answer struct {
		IDs  []int32 `json:"ids"`
		Text string  `json:"text"`
	}
	type answers struct {
		IDs     []int32  `json:"ids"`
		Answers []answer `json:"answers"`
	}
	args := []string{"generate", toy, "--ids", idList(r.PromptIDs), "--max-new-tokens", strconv.Itoa(steps), "--ignore-eos", "--json", "--num-beams", "4",
		"--num-return-sequences", "2", "--early-stopping", "never", "--no-repeat-ngram-size", "4"}
	var local, through answers
	lastJSON(t, run(t, "", append(args, "--local")...), &local)
	if len(local.Answers) != 2 || len(local.IDs) != steps {
		t.Fatalf("%+v", local)
	}
	s := spawn(t, []string{"0:3", "3:6", "6:8", "3:6"})
	lastJSON(t, run(t, "", append(args, "--initial-peers", s.peers())...), &through)
	for i, a := range local.Answers {
		equal(t, "through the swarm", through.Answers[i].IDs, a.IDs)
	}
	// A server is killed while a search runs through it, however soon that is over: one that was met too late has a
	// successor, and the next search is asked for.
	var c completion
	met := false
	for try := 0; try < 20 && !met && !t.Failed(); try++ {
		if !poll(patience, func() bool { return s.servers[1].sessions(t)+s.servers[3].sessions(t) == 0 }) {
			t.Fatal("the session of a client that has ended is still there")
		}
		over, killed := make(chan struct{}), make(chan int, 1)
		go func() {
			for {
				for _, i := range []int{1, 3} {
					if s.servers[i].sessions(t) > 0 {
						s.servers[i].kill()
						killed <- i
						return
					}
				}
				select {
				case <-over:
					killed <- 0
					return
				default:
				}
			}
		}()
		before := reroutes(t, s)
		var status int
		status, c = s.post(t, map[string]any{"prompt": r.PromptIDs, "max_tokens": steps, "ignore_eos": true, "num_beams": 4, "n": 2,
			"early_stopping": "never", "no_repeat_ngram_size": 4, "return_token_ids": true})
		close(over)
		i := <-killed
		if status != 200 || len(c.Choices) != 2 {
			t.Fatalf("status %d: %+v", status, c)
		}
		if met = reroutes(t, s) > before; !met && i > 0 {
			s.servers[i] = start(t, s.serverArgs("3:6")...)
		}
	}
	if !met {
		t.Error("each search was over before a server could be killed")
	}
	for i, a := range local.Answers {
		equal(t, "over HTTP, with a server killed", c.Choices[i].TokenIDs, a.IDs)
		if c.Choices[i].Text != a.Text {
			t.Errorf("choice %d: %q, want %q", i, c.Choices[i].Text, a.Text)
		}
	}
}
