package swarmtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/model"
	"whorl/server"
	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/tensor"
)

// slowLoader's spans take time for what they compute: a step of many rows little more than
// one of one, as where memory bounds it.
type slowLoader struct{ server.Loader }

type slowSpan struct{ server.Engine }

func (l slowLoader) Load(ctx context.Context, start, end, pages int, keep server.Engine, loaded func(blocks.Info)) (server.Engine, error) {
	e, err := l.Loader.Load(ctx, start, end, pages, keep, loaded)
	return slowSpan{e}, err
}

func (s slowSpan) Step(b *tensor.Batch, use []int, from, to int, mode tensor.Mode, in, out []float32) error {
	time.Sleep(10*time.Millisecond + time.Duration(len(b.Rows))*500*time.Microsecond)
	return s.Engine.Step(b, use, from, to, mode, in, out)
}

// slowHead takes time for logits, so that rows do not come back at once.
type slowHead struct{ *model.Head }

func (h slowHead) Logits(dst, hidden []float32, n int, mode tensor.Activations) error {
	time.Sleep(time.Millisecond)
	return h.Head.Logits(dst, hidden, n, mode)
}

// What shares an iteration changes no bit: sessions that are waited for, that are waited
// with, and a prompt that is taken in pieces beside them have the logits they have alone.
func TestSharedIterationsKeepBits(t *testing.T) {
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint(n, " servers"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { sharedIterations(t, n) })
		})
	}
}

func sharedIterations(t *testing.T, n int) {
	r := openModel(t, toy)
	prompts := make([][]int32, 5)
	for i := range prompts {
		for k := range 3 + 9*i {
			prompts[i] = append(prompts[i], int32((k*k+7*i+3)%250))
		}
	}
	const answer, long = 40, 150
	late := make([]int32, long)
	for k := range late {
		late[k] = int32((k*5 + 1) % 250)
	}
	_, alone := r.engine(1, 1)
	want := map[int]string{}
	for i, p := range prompts {
		_, want[i] = r.run(alone, client.SessionOptions{}, p, answer)
	}
	_, want[-1] = r.run(alone, client.SessionOptions{}, late, 4)

	w := NewWorld(t, r.manifest())
	layers := r.ck.Config.Layers
	for i := range n {
		l, err := blocks.NewLoader(r.ck, r.device(1), blocks.Options{StepRows: 512, KV: r.kv})
		if err != nil {
			t.Fatal(err)
		}
		span := swarm.Span{Start: i * layers / n, End: (i + 1) * layers / n}
		w.Start(swarm.PeerID(fmt.Sprint("server", i)), span, slowLoader{server.FromBlocks(l)}, func(c *server.Config) { c.Memory = 4 << 30 })
	}
	head := r.head(1)
	e := w.Engine(slowHead{head}, head.Vocab(), func(c *client.Config) { c.MaxLength = r.ck.Config.LongestSession() })
	var all sync.WaitGroup
	ask := func(i int, prompt []int32, tokens int, after time.Duration) {
		all.Go(func() {
			time.Sleep(after)
			if _, got := r.run(e, client.SessionOptions{}, prompt, tokens); got != want[i] {
				t.Errorf("session %d has other logits than alone", i)
			}
		})
	}
	for i, p := range prompts {
		ask(i, p, answer, time.Duration(i)*3*time.Millisecond)
	}
	ask(-1, late, 4, 200*time.Millisecond)
	all.Wait()
	for i := range n {
		st := w.Server(swarm.PeerID(fmt.Sprint("server", i))).Status()
		if mean := float64(st.Batch.Sessions) / float64(st.Steps); mean < 1.7 || n == 1 && mean < 3 || st.Batch.Recent == 0 {
			t.Errorf("server %d of %d: %.2f sessions an iteration in %d, %+v: nothing was shared", i, n, mean, st.Steps, st.Batch)
		}
	}
}
