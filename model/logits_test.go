package model

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/tensor"
	"whorl/tensor/quant"
	"whorl/tensor/ref"
)

// slowFirst counts products; the first one waits.
type slowFirst struct {
	tensor.Device
	products int
	wait     func()
}

func (d *slowFirst) MatMul(a tensor.Act, p []tensor.Product) {
	if d.products++; d.products == 1 && d.wait != nil {
		d.wait()
	}
	d.Device.MatMul(a, p)
}

// randomHead has q8_0 weights, so that the two kinds of activations give other logits.
func randomHead(t *testing.T, dev tensor.Device, vocab, hidden int) *Head {
	t.Helper()
	r := rand.New(rand.NewPCG(2, 3))
	w := make([]float32, hidden)
	m, err := quant.PackMatrix(tensor.Q8_0, vocab, hidden, func(int) []float32 {
		for i := range w {
			w[i] = float32(r.NormFloat64())
		}
		return w
	})
	if err != nil {
		t.Fatal(err)
	}
	table, err := dev.Load(m)
	if err != nil {
		t.Fatal(err)
	}
	gain, err := dev.LoadVector(slices.Repeat([]float32{1}, hidden))
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHead(dev, HeadParams{Table: table, LM: table, Norm: tensor.NormSpec{Gain: gain, Eps: 1e-5}, LogitScale: .5, LogitSoftcap: 20})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Calls that come while another one computes share batches, each gets what it would get
// alone, and a long one does not keep short ones from their turn.
func TestLogitsShareBatches(t *testing.T) {
	const vocab, hidden, many = 97, 64, 2*maxHeadRows + 3
	dev := &slowFirst{Device: ref.New()}
	h := randomHead(t, dev, vocab, hidden)
	r := rand.New(rand.NewPCG(5, 5))
	sizes := []int{1, many, 1, 2, 1, 0, 1}
	type call struct {
		hidden, want, got []float32
		mode              tensor.Activations
	}
	calls := make([]call, len(sizes))
	for i, n := range sizes {
		c := &calls[i]
		c.hidden, c.want, c.got = make([]float32, n*hidden), make([]float32, n*vocab), make([]float32, n*vocab)
		for j := range c.hidden {
			c.hidden[j] = float32(r.NormFloat64())
		}
		if c.mode = tensor.Act8; i == 4 {
			c.mode = tensor.ActF32
		}
		for row := range n {
			if err := h.Logits(c.want[row*vocab:(row+1)*vocab], c.hidden[row*hidden:(row+1)*hidden], 1, c.mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	dev.products = 0
	begun := make(chan struct{})
	dev.wait = func() {
		close(begun)
		for waiting := 0; waiting < len(sizes)-2; runtime.Gosched() { // all but this and the empty one
			h.waiting.mu.Lock()
			waiting = len(h.waiting.calls)
			h.waiting.mu.Unlock()
		}
	}
	errs := make([]error, len(sizes))
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			c := &calls[i]
			errs[i] = h.Logits(c.got, c.hidden, sizes[i], c.mode)
		})
		if i == 0 {
			<-begun
		}
	}
	all.Wait()
	for i, c := range calls {
		if errs[i] != nil || !slices.Equal(c.got, c.want) {
			t.Errorf("call %d of %d rows: %v, or other logits than alone", i, sizes[i], errs[i])
		}
	}
	// One for the first, one for that of other activations, and full ones for the rest.
	if want := 2 + (many+4+maxHeadRows-1)/maxHeadRows; dev.products != want {
		t.Errorf("%d products, want %d", dev.products, want)
	}
}

// What a device reports reaches the call whose rows were in the batch, and no later one.
func TestLogitsError(t *testing.T) {
	dev := &failing{Device: ref.New()}
	h := randomHead(t, dev, 33, 32)
	dev.err = fmt.Errorf("out of order")
	row, out := make([]float32, 32), make([]float32, 33)
	if err := h.Logits(out, row, 1, tensor.Act8); err == nil || err.Error() != "logits: out of order" {
		t.Errorf("got %v", err)
	}
	dev.err = nil
	if err := h.Logits(out, row, 1, tensor.Act8); err != nil {
		t.Errorf("after it: %v", err)
	}
}

type failing struct {
	tensor.Device
	err error
}

func (d *failing) Sync() error { return d.err }

// A call returns when the batch with the last of its rows is done, whoever computes that,
// and embeddings wait for no batch.
func TestLogitsTurns(t *testing.T) {
	const vocab, hidden = 33, 32
	synctest.Test(t, func(t *testing.T) {
		dev := &gated{Device: ref.New(), gate: make(chan struct{})}
		h := randomHead(t, dev, vocab, hidden)
		var (
			mu    sync.Mutex
			ended []string
		)
		begin := func(name string, call func() error) {
			go func() {
				if err := call(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, name)
			}()
			synctest.Wait()
		}
		logits := func(n int) func() error {
			return func() error {
				return h.Logits(make([]float32, n*vocab), make([]float32, n*hidden), n, tensor.Act8)
			}
		}
		begin("long", logits(4*maxHeadRows-2))
		begin("first", logits(1))
		begin("second", logits(1))
		begin("embedding", func() error { return h.Embed(make([]float32, hidden), []int32{1}) })
		if !slices.Equal(ended, []string{"embedding"}) {
			t.Errorf("before the first batch is done returned %v, want the embedding", ended)
		}
		for batch, want := range [][]string{nil, {"first", "second"}, nil, {"long"}} {
			ended = nil // everybody waits
			dev.gate <- struct{}{}
			synctest.Wait()
			slices.Sort(ended)
			if !slices.Equal(ended, want) {
				t.Errorf("after batch %d returned %v, want %v", batch, ended, want)
			}
		}
	})
}

// gated multiplies when it is let.
type gated struct {
	tensor.Device
	gate chan struct{}
}

func (d *gated) MatMul(a tensor.Act, p []tensor.Product) {
	<-d.gate
	d.Device.MatMul(a, p)
}

// Whoever has the turn waits for a call that came together with it the last time, and for
// nobody where it was alone, or where the moment is over.
func TestGather(t *testing.T) {
	call := func() *logitsCall { return &logitsCall{n: 1, where: new(float32)} }
	a, b, c := call(), call(), call()
	var q logitsQueue
	q.computed([]*logitsCall{a}, time.Hour)
	q.computed([]*logitsCall{b}, time.Hour) // who came one after the other, with no pause between
	q.add(a)
	go q.add(b)
	q.gather()
	if n := q.len(); n != 2 {
		t.Errorf("%d calls, want both", n)
	}
	for name, q := range map[string]*logitsQueue{
		"was alone": {wave: []*float32{a.where}, took: time.Hour}, "asks again": {wave: []*float32{a.where}, took: time.Hour, ended: time.Now()},
		"the moment is over": {wave: []*float32{a.where, b.where, c.where}, took: 1},
	} {
		q.add(a)
		start := time.Now()
		if q.gather(); time.Since(start) > time.Minute {
			t.Errorf("%s: waits for nobody", name)
		}
	}
}
