package swarmtest

import (
	"fmt"
	"testing"
	"testing/synctest"

	"whorl/client"
	"whorl/client/train"
	"whorl/model"
	"whorl/swarm"
)

// lexical are made examples: a text is of the second class if it has an id of a certain set.
func lexical(n, vocab int) (out []train.Example) {
	for i := range n {
		e := train.Example{}
		for j := range 4 + i%5 {
			e.IDs = append(e.IDs, int32((i*37+j*j*11+5)%100))
		}
		e.Label = i * 7 % 10 / 5
		e.IDs[i%len(e.IDs)] = int32(100 + e.Label*50 + i*13%50)
		out = append(out, e)
	}
	return out
}

// tune trains a few steps on the rig's swarm and returns the tables' hash and the losses.
func (r *trainRig) tune(t *testing.T, head *model.Head, o train.Options, steps int) (string, []float64, error) {
	m, err := r.e.Remote(swarm.Span{Start: 0, End: r.layer}, client.RemoteOptions{Rows: 60})
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	if o.Deep {
		blocks = r.layer
	}
	tables, err := train.NewTables(o.Tokens, r.ck.Config.Hidden, blocks, len(o.Labels), head.Vocab(), o.Seed, head)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := train.New(o, head, train.Remote(m), head.Vocab(), tables, lexical(48, head.Vocab()))
	if err != nil {
		t.Fatal(err)
	}
	var losses []float64
	for range steps {
		rep, err := tr.Step(t.Context())
		if err != nil {
			return "", losses, err
		}
		losses = append(losses, rep.Mean())
	}
	return tables.Hash(), losses, nil
}

// Servers die, hang and leave in the middle of training, and the tables have the same bits as those
// of one server that nothing happens to; and the loss goes down.
func TestTuneSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, task := range []train.Task{train.Causal, train.Classify} {
			o := train.Options{Task: task, Tokens: 4, Deep: true, Epochs: 4, Rate: 0.02, Batch: 12, Accumulate: 1, Schedule: train.Cosine, Clip: 1, Seed: 3}
			if task == train.Classify {
				o.Labels = []string{"no", "yes"}
			}
			const steps = 12
			alone := newTrainRig(t, []swarm.Span{{Start: 0, End: 8}}, nil)
			head := alone.head(1)
			want, losses, err := alone.tune(t, head, o, steps)
			if err != nil {
				t.Fatal(err)
			}
			if first, last := losses[0]+losses[1], losses[steps-2]+losses[steps-1]; last > 0.95*first {
				t.Errorf("%s: losses %.3f", task, losses)
			}
			r := newTrainRig(t, append(thirds(8, 1), swarm.Span{Start: 0, End: 4}, swarm.Span{Start: 3, End: 8}), nil)
			passes := 0
			r.heard = func(id swarm.PeerID, kind string) {
				r.mu.Lock()
				passes++
				n := passes
				r.mu.Unlock()
				s := r.w.Server(swarm.PeerID(fmt.Sprint("server", map[int]int{20: 0, 60: 1}[n])))
				switch n {
				case 20:
					s.Node.Kill()
				case 60:
					s.Node.Pause()
				}
			}
			got, _, err := r.tune(t, head, o, steps)
			r.w.Server("server1").Node.Resume()
			if err != nil || got != want {
				t.Errorf("%s: tables %.12s, %v, want %.12s", task, got, err, want)
			}
			if passes < 61 {
				t.Errorf("%d passes: not all servers were lost", passes)
			}
		}
	})
}
