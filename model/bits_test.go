package model_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"whorl/model"
	"whorl/tensor"
)

// bitCases cover float and quantised weights; with floats both activation modes are one.
var bitCases = []struct {
	path  string
	modes []tensor.Activations
}{
	{"testdata/scaled", []tensor.Activations{tensor.Act8}},
	{"testdata/quants/model.gguf", []tensor.Activations{tensor.Act8, tensor.ActF32}},
	{"testdata/mixed/model.gguf", []tensor.Activations{tensor.Act8}},
	{"testdata/kquants/model.gguf", []tensor.Activations{tensor.Act8}},
	{"testdata/repacked/model.gguf", []tensor.Activations{tensor.Act8}},
	{"testdata/qwen2", []tensor.Activations{tensor.Act8}},
	{"testdata/phi3", []tensor.Activations{tensor.Act8}},
	{"testdata/phi3q/model.gguf", []tensor.Activations{tensor.Act8, tensor.ActF32}},
	{"testdata/olmo2", []tensor.Activations{tensor.Act8}},
	{"testdata/olmo2q/model.gguf", []tensor.Activations{tensor.Act8, tensor.ActF32}},
	{"testdata/smollm3", []tensor.Activations{tensor.Act8}},
	{"testdata/smollm3q/model.gguf", []tensor.Activations{tensor.Act8, tensor.ActF32}},
	{"testdata/granite", []tensor.Activations{tensor.Act8}},
	{"testdata/graniteq/model.gguf", []tensor.Activations{tensor.Act8, tensor.ActF32}},
	{"testdata/cohere", []tensor.Activations{tensor.Act8}},
	{"testdata/cohereq/model.gguf", []tensor.Activations{tensor.Act8, tensor.ActF32}},
	{"testdata/gemma2", []tensor.Activations{tensor.Act8}},
	{"testdata/gemma2q/model.gguf", []tensor.Activations{tensor.Act8, tensor.ActF32}},
	{"testdata/gemma3", []tensor.Activations{tensor.Act8}},
	{"testdata/qwen3biased", []tensor.Activations{tensor.Act8}},
	{"testdata/mistralwindow", []tensor.Activations{tensor.Act8}},
	{"testdata/qwen2window", []tensor.Activations{tensor.Act8}},
	{"testdata/yarn", []tensor.Activations{tensor.Act8}},
	{"testdata/mixtralwindow", []tensor.Activations{tensor.Act8}},
	{"testdata/qwen3moestep", []tensor.Activations{tensor.Act8}},
	{"testdata/mixtralquants/model.gguf", []tensor.Activations{tensor.Act8, tensor.ActF32}},
	{"testdata/bloom", []tensor.Activations{tensor.Act8}},
	{"testdata/bloomq/model.gguf", []tensor.Activations{tensor.Act8, tensor.ActF32}},
	{"testdata/falcon", []tensor.Activations{tensor.Act8}},
	{"testdata/falconrw", []tensor.Activations{tensor.Act8}},
	{"testdata/falcon40", []tensor.Activations{tensor.Act8}},
	{"testdata/falcon11/model.gguf", []tensor.Activations{tensor.Act8, tensor.ActF32}},
}

func eachBitCase(t *testing.T, run func(t *testing.T, path string, mode tensor.Activations)) {
	for _, c := range bitCases {
		for _, mode := range c.modes {
			t.Run(c.path+"/"+mode.String(), func(t *testing.T) { run(t, c.path, mode) })
		}
	}
}

// ids makes n ids that every fixture's vocabulary has.
func ids(n, seed int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32((i*i*7 + i*13 + seed*29 + 5) % 96)
	}
	return out
}

// Any chunking of a prompt gives the bits of one prefill, across the border of a KV page
// and of an attention split, on one thread or two.
func TestChunksGiveTheSameBits(t *testing.T) {
	devs := []tensor.Device{openDevice(t, 1), openDevice(t, 2)}
	eachBitCase(t, func(t *testing.T, path string, mode tensor.Activations) {
		prompt := ids(tensor.AttendSplit+9, 0)
		one := newRig(t, path, devs[0], model.LoadOptions{})
		two := newRig(t, path, devs[1], model.LoadOptions{})
		want := one.hidden(mode, nil, part{one.sequence(len(prompt)), prompt})
		got := inChunks(two, mode, prompt, 77)
		if !sameBits(got, want) {
			t.Error("two threads, chunks of 77: other bits than one prefill on one thread")
		}
		short := prompt[:tensor.PageTokens+3]
		step := inChunks(one, mode, short, 1)
		if !sameBits(step, want[:len(step)]) {
			t.Error("step by step: other bits than one prefill")
		}
		if !sameBits(two.logits(mode, got[:len(step)]), one.logits(mode, step)) {
			t.Error("two threads: other logits than on one")
		}
	})
}

func inChunks(r *rig, mode tensor.Activations, prompt []int32, chunk int) []float32 {
	r.t.Helper()
	s := r.sequence(len(prompt))
	var got []float32
	for len(prompt) > 0 {
		n := min(chunk, len(prompt))
		got = append(got, r.hidden(mode, nil, part{s, prompt[:n]})...)
		prompt = prompt[n:]
	}
	return got
}

// Sequences that share steps with others, at other positions and in other chunks, get the
// bits that they get alone.
func TestBatchesGiveTheSameBits(t *testing.T) {
	dev := openDevice(t, 2)
	eachBitCase(t, func(t *testing.T, path string, mode tensor.Activations) {
		r := newRig(t, path, dev, model.LoadOptions{})
		prompts := [][]int32{ids(5, 1), ids(80, 2), ids(17, 3)}
		var want, got [3][]float32
		for i, p := range prompts {
			want[i] = r.hidden(mode, nil, part{r.sequence(len(p)), p})
		}
		a, b, c := r.sequence(5), r.sequence(80), r.sequence(17)
		place := map[*sequence]int{a: 0, b: 1, c: 2}
		steps := [][]part{
			{{a, prompts[0][:2]}, {b, prompts[1][:66]}},
			{{b, prompts[1][66:67]}, {c, prompts[2][:9]}, {a, prompts[0][2:3]}},
			{{a, prompts[0][3:]}, {c, prompts[2][9:]}, {b, prompts[1][67:]}},
		}
		for _, step := range steps {
			rows := r.hidden(mode, nil, step...)
			for _, p := range step {
				n := len(p.ids) * r.ck.Config.Hidden
				got[place[p.s]] = append(got[place[p.s]], rows[:n]...)
				rows = rows[n:]
			}
		}
		for i := range prompts {
			if !sameBits(got[i], want[i]) {
				t.Errorf("sequence %d: other bits than alone", i)
			}
		}
	})
}

// With a cache of bfloat16 the bits do not depend on chunks or company either, and the
// logits stay near those of a cache of float32.
func TestBF16CacheGivesTheSameBits(t *testing.T) {
	dev := openDevice(t, 2)
	for _, path := range []string{"testdata/scaled", "testdata/quants/model.gguf", "testdata/gemma2", "testdata/bloom", "../internal/swarmtest/testdata/toy"} {
		prompt, other := ids(tensor.AttendSplit+9, 0), ids(17, 3)
		full := newRig(t, path, dev, model.LoadOptions{})
		half := newRig(t, path, dev, model.LoadOptions{})
		half.cache(tensor.BF16)
		want := half.hidden(tensor.Act8, nil, part{half.sequence(len(prompt)), prompt})
		if !sameBits(inChunks(half, tensor.Act8, prompt, 77), want) {
			t.Errorf("%s: chunks of 77: other bits than one prefill", path)
		}
		short := prompt[:tensor.PageTokens+3]
		if step := inChunks(half, tensor.Act8, short, 1); !sameBits(step, want[:len(step)]) {
			t.Errorf("%s: step by step: other bits than one prefill", path)
		}
		both := half.hidden(tensor.Act8, nil, part{half.sequence(len(other)), other}, part{half.sequence(len(short)), short})
		if n := len(other) * half.ck.Config.Hidden; !sameBits(both[n:], want[:len(both)-n]) {
			t.Errorf("%s: beside another sequence: other bits than alone", path)
		}
		// Activations in 8 bits would add steps of their own.
		near := half.logits(tensor.ActF32, half.hidden(tensor.ActF32, nil, part{half.sequence(len(prompt)), prompt}))
		exact := full.logits(tensor.ActF32, full.hidden(tensor.ActF32, nil, part{full.sequence(len(prompt)), prompt}))
		var off, size float64
		for i := range exact {
			d := float64(near[i] - exact[i])
			off, size = off+d*d, size+float64(exact[i])*float64(exact[i])
		}
		if share := math.Sqrt(off / size); !(share > 0 && share < 0x1p-5) {
			t.Errorf("%s: logits are off by %.3g of their size", path, share)
		} else {
			t.Logf("%s: logits are off by %.3g of their size", path, share)
		}
	}
}

// The head gives a row the same bits whatever rows stand beside it, also under concurrent use.
func TestHeadIsConcurrent(t *testing.T) {
	r := newRig(t, "testdata/quants/model.gguf", openDevice(t, 2), model.LoadOptions{})
	h, v := r.head.Hidden(), r.head.Vocab()
	all := ids(70, 4) // more than two chunks
	x := make([]float32, len(all)*h)
	if err := r.head.Embed(x, all); err != nil {
		t.Fatal(err)
	}
	want := r.logits(tensor.Act8, x)
	var wg sync.WaitGroup
	errs := make(chan error, len(all))
	for i := range all {
		wg.Go(func() {
			row, out := make([]float32, h), make([]float32, v)
			if err := r.head.Embed(row, all[i:i+1]); err != nil {
				errs <- err
			}
			if err := r.head.Logits(out, row, 1, tensor.Act8); err != nil {
				errs <- err
			}
			if !sameBits(row, x[i*h:][:h]) || !sameBits(out, want[i*v:][:v]) {
				errs <- fmt.Errorf("row %d differs", i)
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

func TestHeadRefusesBadInput(t *testing.T) {
	r := newRig(t, "testdata/scaled", openDevice(t, 1), model.LoadOptions{})
	h, v := r.head.Hidden(), r.head.Vocab()
	row := make([]float32, h)
	for _, id := range []int32{-1, int32(v), 1 << 30} {
		if err := r.head.Embed(row, []int32{id}); err == nil {
			t.Errorf("id %d of a vocabulary of %d was embedded", id, v)
		}
	}
	if r.head.Embed(row[1:], []int32{1}) == nil {
		t.Error("a row that is too short was filled")
	}
	if r.head.Logits(make([]float32, v), row[1:], 1, tensor.Act8) == nil ||
		r.head.Logits(make([]float32, v+1), row, 1, tensor.Act8) == nil ||
		r.head.Logits(nil, nil, -1, tensor.Act8) == nil {
		t.Error("logits of rows of the wrong length were computed")
	}
	if err := r.head.Logits(nil, nil, 0, tensor.Act8); err != nil {
		t.Errorf("no rows: %v", err)
	}
}
