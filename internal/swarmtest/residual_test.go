package swarmtest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/server"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
	"whorl/tensor"
	"whorl/tensor/cpu"
)

func halved(c *client.Config) { c.Residual = tensor.ResidualBF16 }

// With rows of bfloat16 between blocks every layout gives the ids of one place, which are not
// those of float32, also when servers die and beside sessions of the other kind.
func TestHalvedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p, want, plain []int32
		for seed := 0; slices.Equal(want, plain); seed++ { // few prompts show the difference in their ids
			if seed == 200 {
				t.Fatal("the fake model gives the same ids either way: it shows nothing")
			}
			p = prompt(100, seed)
			want, plain = fakeGreedy(p, 60, tensor.ResidualBF16), FakeGreedy(p, 60)
		}
		for _, spans := range [][]string{{"0:6"}, {"0:2", "2:4", "4:6"}, {"0:1", "1:2", "2:3", "3:4", "4:5", "5:6"}} {
			w, full := chain(t, 2, nil, spans...)
			e := w.Engine(FakeHead{}, FakeVocab, halved)
			other := make(chan []int32)
			go func() { other <- generate(t, full, client.SessionOptions{MaxLength: 200}, p, 60, nil) }()
			got := generate(t, e, client.SessionOptions{MaxLength: 200, PrefillChunk: 7}, p, 60, func(s *client.Session, have int) {
				if have == 30 {
					w.Server(s.Route()[len(spans)/2].Peer).Node.Kill()
				}
			})
			if !slices.Equal(got, want) {
				t.Errorf("%v: %v, want %v", spans, got, want)
			}
			if got := <-other; !slices.Equal(got, plain) {
				t.Errorf("%v, float32 beside it: %v, want %v", spans, got, plain)
			}
		}
	})
}

// Receipts of two chains agree and cover the journal; no honest server has a dispute in an
// audit, and a liar is found.
func TestHalvedRowsAreAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := chain(t, 2, func(c *server.Config) { c.StepRows = 32 }, "0:2", "2:4", "4:6")
		e := w.Engine(FakeHead{}, FakeVocab, halved)
		req := client.Request{Prompt: prompt(100, 1), MaxNewTokens: 80}
		plain := proven(t, e, client.SessionOptions{MaxLength: 400}, req, nil)
		first := receiptsOf(t, plain)
		covered(t, plain, first)
		killed := false
		lossy := proven(t, e, client.SessionOptions{MaxLength: 400, PrefillChunk: 7}, req, func(s *client.Session, have int) {
			if have >= 30 && !killed {
				killed = true
				w.Server(s.Route()[1].Peer).Close()
			}
		})
		second := receiptsOf(t, lossy)
		covered(t, lossy, second)
		for i := range first {
			if err := second[i].Agrees(&first[i].Receipt.Receipt); err != nil {
				t.Errorf("stage %d: %v", i, err)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := newAudited(t, 1, lies["garbage"], halved)
		for i := range 30 {
			a.session(t, 4, i)
		}
		if found, innocent := a.found(); len(found) == 0 || len(innocent) > 0 {
			t.Errorf("liars found: %v, and innocent: %v", found, innocent)
		}
	})
}

// A row takes two bytes a value on every way, and a token at most 64 more on a hop.
func TestHalvedBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, full := chain(t, 1, nil, "0:2", "2:4", "4:6")
		sizes := map[tensor.Residual]map[Count]int{}
		counts := map[tensor.Residual]map[Count]int{}
		for residual, e := range map[tensor.Residual]*client.Engine{tensor.ResidualF32: full, tensor.ResidualBF16: w.Engine(FakeHead{}, FakeVocab, halved)} {
			w.Net.Counts()
			w.Net.Sizes()
			generate(t, e, client.SessionOptions{MaxLength: 64}, prompt(5, 1), 40, nil)
			sizes[residual], counts[residual] = w.Net.Sizes(), w.Net.Counts()
		}
		ways := 0
		for way, n := range counts[tensor.ResidualBF16] {
			if way.Type != wire.TypeRows && way.Type != wire.TypeJournal {
				continue
			}
			ways++
			half, whole := sizes[tensor.ResidualBF16][way], sizes[tensor.ResidualF32][way]
			rows := 44 // of prompt and answer, but for the last token
			if way.To == "client" && way.Type == wire.TypeRows {
				rows = 40
			}
			if whole-half != 2*fakeHidden*rows || counts[tensor.ResidualF32][way] != n || half > n*64+rows*2*fakeHidden {
				t.Errorf("%+v: %d frames of %d bytes in all, %d with float32, for %d rows", way, n, half, whole, rows)
			}
		}
		if ways < 6 {
			t.Errorf("only %d ways of rows: %v", ways, counts)
		}
		for _, hidden := range []int{576, 4096, 8192} {
			h := wire.RowsHeader{Count: 1}
			if n := wire.RowsFrameSize(&h, 2*hidden); n > 2*hidden+64 {
				t.Errorf("a token of %d columns takes %d bytes on a hop", hidden, n)
			}
		}
	})
}

// beyond embeds what no bfloat16 holds.
type beyond struct{ FakeHead }

func (beyond) Embed(dst []float32, ids []int32) error {
	for i := range dst {
		dst[i] = 3.4e38
	}
	return nil
}

// What is finite and rounds to infinity fails as not finite, here and at a server.
func TestRoundedToInfinity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := chain(t, 1, nil, "0:6")
		ask := func(e *client.Engine) error {
			s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 20})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, err = s.Generate(t.Context(), client.Request{Prompt: prompt(3, 1), MaxNewTokens: 2, TopLogprobs: -1}, nil)
			return err
		}
		if err := ask(w.Engine(beyond{}, FakeVocab, halved)); err == nil {
			t.Error("an embedding beyond bfloat16 is taken")
		} else {
			t.Log(err)
		}
		w.Start("huge", swarm.Span{Start: 0, End: 6}, FakeLoader{Lie: func(rows []float32, _ int) {
			rows[0] = 3.4e38
			codec.Round(rows)
		}}, nil)
		w.Server("0:6/0").Close()
		err := ask(w.Engine(FakeHead{}, FakeVocab, func(c *client.Config) { halved(c); c.Timeouts.Recover = time.Second }))
		var e *swarm.Error
		if !errors.As(err, &e) {
			t.Errorf("rows that are rounded to infinity are taken: %v", err)
		}
	})
}

// What a client rounds it rounds as devices do.
func TestRoundingOfClients(t *testing.T) {
	in := []float32{0, 1.00390625, 1.01171875, math.MaxFloat32, -3.4e38, math.SmallestNonzeroFloat32, float32(math.Inf(1)), float32(math.NaN()), math.Float32frombits(0xff800001)}
	for i := range uint32(1 << 14) {
		in = append(in, math.Float32frombits(i*0x40401+i))
	}
	dev, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	b, err := dev.NewBuffer(1, len(in))
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, len(in))
	dev.Upload(b, 0, in)
	dev.Round(b, 1)
	dev.Download(want, b, 0)
	if err := dev.Sync(); err != nil {
		t.Fatal(err)
	}
	got := slices.Clone(in)
	codec.Round(got)
	for i := range in {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Errorf("%x is rounded to %x, and by a device to %x", math.Float32bits(in[i]), math.Float32bits(got[i]), math.Float32bits(want[i]))
		}
	}
}

// Rows of prompts are packed on every way between nodes that can, and change nothing: not with
// servers that cannot, which say so in their records.
func TestPackedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := prompt(2500, 3) // frames of 1024 rows of four values are just large enough
		sizes := map[string]int{}
		var want []int32
		for _, kind := range []string{"packed", "plain"} {
			w, _ := chain(t, 1, func(c *server.Config) { c.StepRows, c.CacheToken = 2048, 1<<14 }, "0:3", "3:6")
			e := w.Engine(FakeHead{}, FakeVocab, halved)
			if kind == "plain" {
				w.Dir.Change(func(r *swarm.Record) { r.Features &^= wire.FeaturePacked })
			}
			got := generate(t, e, client.SessionOptions{MaxLength: 2600, PrefillChunk: 1024}, p, 5, nil)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", kind, got, want)
			}
			for way, n := range w.Net.Sizes() {
				if way.Type == wire.TypeRows && way.To != "client" || way.Type == wire.TypeJournal {
					sizes[fmt.Sprint(kind, " ", way.From, " ", way.To)] = n
				}
			}
		}
		t.Log(sizes)
		for _, way := range []string{"client 0:3/0", "0:3/0 3:6/0"} {
			if packed, plain := sizes["packed "+way], sizes["plain "+way]; packed == 0 || packed*10 > plain*9 {
				t.Errorf("%s: %d bytes packed and %d plain", way, packed, plain)
			}
		}
	})
}
