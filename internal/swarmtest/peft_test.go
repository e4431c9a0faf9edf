package swarmtest

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
	"testing/synctest"

	"whorl/client"
	"whorl/client/train"
	"whorl/swarm"
)

// Prompts trained through three servers have the losses that the PEFT library has with torch, from
// the same first table, examples and order, and end as the same table (make_toy_tune.py).
func TestTuneEqualsPEFT(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := os.ReadFile("testdata/toy_tune.json")
		if err != nil {
			t.Fatal(err)
		}
		var want struct {
			Orders [][]int
			Losses []float64
			Table  []float32
		}
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		r := newTrainRig(t, thirds(8, 1), nil)
		head := r.head(1)
		var examples []train.Example
		for i := range 24 {
			e := train.Example{From: i % 3}
			for j := range 4 + i%5 {
				e.IDs = append(e.IDs, int32((i*37+j*j*11+5)%100))
			}
			examples = append(examples, e)
		}
		o := train.Options{Task: train.Causal, Tokens: 4, Epochs: 3, Rate: 0.03, Batch: 6, Accumulate: 1, Warmup: 2, Schedule: train.Linear, Decay: 0.01, Clip: 1, Seed: 7}
		hidden := r.ck.Config.Hidden
		tables := &train.Tables{Tokens: 4, Hidden: hidden, Shallow: make([]float32, 4*hidden)}
		if err := head.Embed(tables.Shallow, []int32{5, 17, 40, 90}); err != nil {
			t.Fatal(err)
		}
		m, err := r.e.Remote(swarm.Span{Start: 0, End: 8}, client.RemoteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := train.New(o, head, train.Remote(m), head.Vocab(), tables, examples)
		if err != nil {
			t.Fatal(err)
		}
		for epoch := range o.Epochs {
			if got := train.Order(len(examples), o.Seed, epoch); !slices.Equal(got, want.Orders[epoch]) {
				t.Fatalf("epoch %d has the order %v, and the reference %v", epoch, got, want.Orders[epoch])
			}
			var sum train.Sum
			for range tr.PerEpoch() {
				rep, err := tr.Step(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				sum.Loss += rep.Loss
				sum.Count += rep.Count
			}
			if d := math.Abs(sum.Mean() - want.Losses[epoch]); d > 1e-4 {
				t.Errorf("epoch %d: loss %.6f, PEFT has %.6f", epoch, sum.Mean(), want.Losses[epoch])
			}
			t.Logf("epoch %d: loss %.6f, PEFT %.6f", epoch, sum.Mean(), want.Losses[epoch])
		}
		worst := 0.0
		for i, v := range tables.Shallow {
			worst = max(worst, math.Abs(float64(v-want.Table[i])))
		}
		// Adam divides by the root of what a gradient was: where that is nearly nothing, rounding decides.
		if t.Logf("tables differ by %.2g at most", worst); worst > 1e-3 {
			t.Errorf("tables differ by %.3g at most", worst)
		}
	})
}
