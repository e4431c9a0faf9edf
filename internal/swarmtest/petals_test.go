package swarmtest

import (
	"bufio"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/client/sample"
	"whorl/model"
	"whorl/server"
	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
	"whorl/tensor"
	"whorl/tensor/ref"
)

// What Petals' own suite checks, restated for a swarm without gradients. Beams and
// processors against transformers are in searches_test.go.

// oracle runs rows through blocks of TOY in float64, in one piece.
func oracle(t *testing.T, r *real, span swarm.Span, rows []float32) []float32 {
	t.Helper()
	dev, n := ref.New(), len(rows)/r.ck.Config.Hidden
	ws, err := r.ck.Config.NewWorkspace(dev, n)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := dev.NewKV(r.ck.Config.KVSpec(span.Len(), n/tensor.PageTokens+1, tensor.F32))
	if err != nil {
		t.Fatal(err)
	}
	b := &tensor.Batch{Seqs: make([]tensor.KVView, 1)}
	for i := range n/tensor.PageTokens + 1 {
		b.Seqs[0].Pages = append(b.Seqs[0].Pages, int32(i))
	}
	for p := range n {
		b.Rows = append(b.Rows, tensor.Row{Pos: int32(p)})
	}
	dev.Upload(ws.X, 0, rows)
	for i := span.Start; i < span.End; i++ {
		block, err := r.ck.LoadBlock(dev, i, model.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		block.Forward(ws, b, ws.X, kv, i-span.Start, tensor.ActF32)
	}
	out := make([]float32, len(rows))
	dev.Download(out, ws.X, 0)
	return out
}

// One stage of blocks 3:6 gives what the blocks give (T4, T8, T9, T16): 129 rows at once,
// then one by one, and a refusal beyond the length.
func TestPetalsBlocksThroughAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, first = 136, 129
		r, span := openModel(t, toy), swarm.Span{Start: 3, End: 6}
		l, err := blocks.NewLoader(r.ck, r.device(1), blocks.Options{StepRows: 512})
		if err != nil {
			t.Fatal(err)
		}
		w := NewWorld(t, swarm.Manifest{Name: r.ck.Name, Blocks: r.ck.Config.Layers, Hidden: r.ck.Config.Hidden, Class: swarm.Class{
			ConfigHash: r.ck.Config.Hash(), DType: "f32", Quant: "none", KVDType: "f32", Arithmetic: "exact1"}})
		w.Start("server", span, server.FromBlocks(l), nil)
		stream, err := w.Net.Node("client").Dial(t.Context(), "server", wire.ProtoSession)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Reset()
		hidden, rng := r.ck.Config.Hidden, rand.New(rand.NewPCG(4, 4))
		in := make([]float32, (n+1)*hidden)
		for i := range in {
			in[i] = float32(rng.NormFloat64())
		}
		open := wire.Open{Version: wire.Version, Session: wire.SessionID{1}, UID: w.Manifest.UID(), Span: span, MaxLength: n, Activations: "f32",
			Route: wire.Route{Epoch: 1, Journal: -1}}
		open.Mode = open.SessionMode().Hash()
		buf := wire.AppendFrame(wire.AppendJSON(nil, wire.TypeOpen, open), wire.TypeCommit)
		frames, got := wire.NewReader(bufio.NewReader(stream)), []float32(nil)
		frames.AllowRows(1 << 10)
		next := func() (wire.Type, []byte) {
			stream.SetReadDeadline(time.Now().Add(10 * time.Second))
			ty, p, err := frames.Next()
			if err != nil {
				t.Fatal(err)
			}
			return ty, p
		}
		stream.Write(buf[:len(buf)-5])
		if ty, p := next(); ty != wire.TypeAccept {
			t.Fatalf("type %d: %s", ty, p)
		}
		stream.Write(buf[len(buf)-5:])
		for from, to := 0, first; from <= n; from, to = to, to+1 {
			h := wire.RowsHeader{Session: open.Session, Epoch: 1, Step: uint64(to), Start: uint32(from), Count: uint32(to - from), Codec: codec.F32}
			stream.Write(wire.AppendFrame(nil, wire.TypeRows, h.Append(nil), codec.Append(nil, codec.F32, in[from*hidden:to*hidden])))
			ty, p := next()
			for ty == wire.TypeDone {
				ty, p = next()
			}
			if from == n {
				if ty != wire.TypeFail || !strings.Contains(string(p), "Maximum length exceeded") {
					t.Errorf("beyond the length: type %d, %s", ty, p)
				}
				break
			}
			if ty != wire.TypeRows {
				t.Fatalf("rows %d:%d: type %d, %s", from, to, ty, p)
			}
			_, data, err := wire.ParseRows(p)
			if err == nil {
				var rows []float32
				rows, err = codec.Decode(nil, codec.F32, data, len(data)/4)
				got = append(got, rows...)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		want := oracle(t, r, span, in[:n*hidden])
		for i := range want {
			if d := math.Abs(float64(got[i] - want[i])); !(d <= 1e-4) {
				t.Fatalf("row %d, column %d: %v, want %v", i/hidden, i%hidden, got[i], want[i])
			}
		}
	})
}

// Steps of any size, 1, 5 and none, give the log-probabilities of one forward, to the bit
// (T11).
func TestPetalsStepsEqualForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openModel(t, toy)
		_, e := r.engine(3, 1)
		ids := prompt(40, 5)
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 60})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		at := 0
		for _, n := range []int{1, 5, 0, 1, 1, 5, 13, 0, 5, 9} {
			// The token chosen after a piece is taken back, so that the next piece follows it.
			res, err := s.Generate(t.Context(), client.Request{Prompt: ids[at : at+n], MaxNewTokens: 1, IgnoreEOS: true}, nil)
			if err == nil {
				at += n
				err = s.Truncate(at)
			}
			if err != nil {
				t.Fatal(err)
			}
			whole, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 60})
			if err != nil {
				t.Fatal(err)
			}
			score, err := whole.Score(t.Context(), append(slices.Clone(ids[:at]), res.IDs[0]))
			whole.Close()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := res.Logprobs[0].Logprob, score.Logprobs[at]; got != want || math.IsNaN(got) || math.IsInf(got, 0) {
				t.Errorf("after %d ids: %v, in one forward %v", at, got, want)
			}
		}
	})
}

// Greedy and sampled ids are the same alone and with another session beside it, in one call
// and in three that go on from each other (T12, T13; greedy against transformers in
// TestToyEqualsReference).
func TestPetalsResumedGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openModel(t, toy)
		_, e := r.engine(2, 2)
		run := func(p []int32, params sample.Params, calls ...int) (all []int32) {
			s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: len(p) + 10})
			if err != nil {
				t.Error(err)
				return nil
			}
			defer s.Close()
			for i, n := range calls {
				req := client.Request{MaxNewTokens: n, Sampling: params, TopLogprobs: -1, IgnoreEOS: true}
				if i == 0 {
					req.Prompt = p
				}
				res, err := s.Generate(t.Context(), req, nil)
				if err != nil {
					t.Error(err)
				}
				all = append(all, res.IDs...)
			}
			return all
		}
		for _, c := range []struct {
			name   string
			params sample.Params
			drawn  bool
		}{
			{name: "greedy"},
			{name: "penalised", params: sample.Params{RepetitionPenalty: 1.5, NoRepeatNGram: 2}},
			{name: "drawn", params: sample.Params{Temperature: 0.4, TopK: 50, TopP: 0.9, Seed: 3}, drawn: true},
			{name: "drawn and penalised", params: sample.Params{Temperature: 0.8, RepetitionPenalty: 1.2, Seed: 3}, drawn: true},
		} {
			p := prompt(17, 2)
			want := run(p, c.params, 10)
			if got := run(p, c.params, 10); !slices.Equal(got, want) {
				t.Errorf("%s: %v, and again %v", c.name, want, got)
			}
			// A seed counts from the start of a call.
			if got := run(p, c.params, 3, 3, 4); !c.drawn && !slices.Equal(got, want) || !slices.Equal(got[:3], want[:3]) {
				t.Errorf("%s: %v in one call, %v in three", c.name, want, got)
			}
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					if got := run(p, c.params, 10); !slices.Equal(got, want) {
						t.Errorf("%s: %v alone, %v in company", c.name, want, got)
					}
				})
			}
			wg.Wait()
		}
	})
}
