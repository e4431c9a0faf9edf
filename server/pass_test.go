package server

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// A pass gives what its blocks make of the rows, whatever the chunks; prompts are added in front
// of each block, and their gradients come back for each sequence.
func TestPasses(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		in, grads := input(1, 8), input(2, 8)
		table := input(3, 2*2*2) // two blocks, two sequences, two positions
		shared := slices.Concat(table[:2*hidden], table[:2*hidden], table[4*hidden:6*hidden], table[4*hidden:6*hidden])
		once := slices.Concat(table[:2*hidden], table[4*hidden:6*hidden])
		for _, c := range []struct {
			name   string
			ask    wire.Pass
			tables []float32 // as they are added
			sent   []float32 // as they travel
		}{
			{"plain", passMsg(false, 5, 3), nil, nil},
			{"prompts", func() wire.Pass { a := passMsg(false, 5, 3); a.Prompt = 2; return a }(), table, table},
			{"shared prompts", func() wire.Pass { a := passMsg(false, 5, 3); a.Prompt, a.Shared = 2, true; return a }(), shared, once},
		} {
			r := blocks.Training{Lengths: c.ask.Lengths, PromptRows: c.ask.Prompt, Prompts: c.tables, Yield: func() error { return nil }}
			ref := fakeTrainer{&passWorld{}}
			want := make([]float32, len(in))
			ref.Forward(&r, 2, 4, in, want, nil)
			p := w.pass(n, "client", c.ask)
			p.give(c.ask, slices.Concat(in, c.sent))
			if got, err := p.result(c.ask); err != nil || !equalBits(got, want) {
				t.Errorf("%s forward: %v, %v, want %v", c.name, got, err, want)
			}
			p.stream.Close()
			c.ask.Backward = true
			din, dprompts := make([]float32, len(in)), make([]float32, len(c.tables))
			ref.Backward(&r, 2, 4, in, nil, grads, din, dprompts)
			p = w.pass(n, "client", c.ask)
			p.give(c.ask, slices.Concat(in, grads, c.sent))
			if got, err := p.result(c.ask); err != nil || !equalBits(got, slices.Concat(din, dprompts)) {
				t.Errorf("%s backward: %v, %v, want %v", c.name, got, err, slices.Concat(din, dprompts))
			}
			p.stream.Close()
		}
		n.passed(t)
	})
}

// What cannot be computed is refused by name before memory is taken, and each refusal says who is
// to do what.
func TestPassRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, func(c *Config, n *node) { c.Passes.Rows = 40 })
		small := w.serve("small", middle, func(c *Config, n *node) { c.Passes.Memory = 1 << 16 })
		small.loader.passes = &passWorld{bytes: 1 << 15, pieces: 1}
		off := w.serve("off", middle, func(c *Config, n *node) { c.Passes.Off = true })
		for name, c := range map[string]struct {
			to      *node
			change  func(*wire.Pass)
			code    swarm.Code
			verdict swarm.Verdict
		}{
			"model":        {n, func(p *wire.Pass) { p.UID = "other" }, swarm.CodeWrongModel, swarm.Elsewhere},
			"blocks":       {n, func(p *wire.Pass) { p.Span.End = 5 }, swarm.CodeWrongModel, swarm.Elsewhere},
			"no blocks":    {n, func(p *wire.Pass) { p.Span.End = p.Span.Start }, swarm.CodeBadRequest, swarm.Caller},
			"mode":         {n, func(p *wire.Pass) { p.Mode[0] = 1 }, swarm.CodeUnsupported, swarm.Elsewhere},
			"no sequences": {n, func(p *wire.Pass) { p.Lengths = nil }, swarm.CodeBadRequest, swarm.Caller},
			"negative":     {n, func(p *wire.Pass) { p.Lengths = []int{3, -1} }, swarm.CodeBadRequest, swarm.Caller},
			"too long":     {n, func(p *wire.Pass) { p.Lengths = []int{101} }, swarm.CodeBadRequest, swarm.Caller},
			"short":        {n, func(p *wire.Pass) { p.Prompt = 6 }, swarm.CodeBadRequest, swarm.Caller},
			"many rows":    {n, func(p *wire.Pass) { p.Lengths = []int{30, 30} }, swarm.CodeTooLong, swarm.Elsewhere},
			"workspace":    {small, func(p *wire.Pass) {}, swarm.CodeTooLong, swarm.Elsewhere},
			"version":      {n, func(p *wire.Pass) { p.Version = 9 }, swarm.CodeVersion, swarm.Elsewhere},
			"adapter":      {n, func(p *wire.Pass) { p.Adapter = &swarm.Adapter{Name: "x"} }, swarm.CodeBadRequest, swarm.Caller},
			"off":          {off, func(p *wire.Pass) {}, swarm.CodeUnsupported, swarm.Elsewhere},
		} {
			ask := passMsg(false, 5, 3)
			c.change(&ask)
			p := w.pass(c.to, "client", ask)
			if _, err := p.result(passMsg(false, 1)); err == nil || err.Code != c.code || err.Verdict != c.verdict {
				t.Errorf("%s: %v, want %s for %v", name, err, c.code, c.verdict)
			}
			p.stream.Close()
		}
		n.passed(t)
		if r, _ := w.View(t.Context(), ""); len(r.Servers) != 3 || r.Servers[0].Features&wire.FeaturePasses == 0 || r.Servers[1].Features&wire.FeaturePasses != 0 {
			t.Error("records do not say who takes passes")
		}
	})
}

// Whatever a stranger sends after the first frame ends its own pass alone.
func TestHostilePasses(t *testing.T) {
	ask := passMsg(true, 5, 3)
	in := input(1, 16)
	chunk := func(s wire.Section, start, count uint32, c uint8, v []float32) []byte {
		h := wire.ChunkHeader{Section: s, Start: start, Count: count, Codec: c}
		return codec.Append(wire.BeginChunk(nil, &h, 4*len(v)), codec.F32, v)
	}
	bad := slices.Clone(in[:hidden])
	bad[1] = float32(math.Inf(1))
	for name, frames := range map[string][]byte{
		"gradients first": chunk(wire.SectionGradients, 0, 1, codec.F32, in[:hidden]),
		"a gap":           chunk(wire.SectionInputs, 1, 1, codec.F32, in[:hidden]),
		"too many":        chunk(wire.SectionInputs, 0, 9, codec.F32, in[:9*hidden]),
		"too few bytes":   chunk(wire.SectionInputs, 0, 2, codec.F32, in[:hidden]),
		"unknown codec":   chunk(wire.SectionInputs, 0, 1, 77, in[:hidden]),
		"not finite":      chunk(wire.SectionInputs, 0, 1, codec.F32, bad),
		"rows":            rowsFrame(wire.RowsHeader{Count: 1, Codec: codec.F32}, in[:hidden]),
		"another pass":    wire.AppendJSON(nil, wire.TypePass, ask),
	} {
		bubble(t, func(t *testing.T, w *world) {
			n := w.serve("a", middle, nil)
			p := w.pass(n, "stranger", ask)
			p.write(frames)
			if _, err := p.result(ask); err == nil || err.Code != swarm.CodeBadFrame || err.Verdict != swarm.Caller {
				t.Errorf("%s: %v", name, err)
			}
			p.stream.Close()
			n.passed(t)
			// Silence, and a stream that ends, hold nothing either.
			w.pass(n, "mute", ask)
			gone := w.pass(n, "gone", ask)
			gone.give(ask, in)
			gone.stream.Reset()
			time.Sleep(2 * passPatience)
			n.passed(t)
		})
	}
}

// Sessions come before passes: an iteration waits for one piece at most, however long the pass,
// and a pass has its turn beside sessions that are never idle.
func TestPassesGiveWay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		n.engine.takes = 10 * time.Millisecond
		n.loader.passes = &passWorld{pieces: 40, takes: 20 * time.Millisecond}
		ask := passMsg(true, 3)
		p := w.pass(n, "trainer", ask)
		p.give(ask, input(1, 6))
		x := w.opened(n, "user", middle, nil)
		synctest.Wait()
		in := input(2, 60)
		worst, late := time.Duration(0), 0
		for i := range 60 {
			at := time.Now()
			x.rows(in, i, i+1, i)
			x.expect(wire.TypeRows)
			took := time.Since(at)
			if worst = max(worst, took); took > 15*time.Millisecond {
				late++
			}
			x.expect(wire.TypeDone)
			time.Sleep(2 * time.Millisecond) // its head
		}
		// Until its pace is known a session waits for pieces; then for one in a second.
		if worst > 31*time.Millisecond || late > 4 {
			t.Errorf("of 60 tokens of 10 ms %d were late beside a pass of pieces of 20 ms, by up to %v", late, worst-10*time.Millisecond)
		}
		if _, err := p.result(ask); err != nil {
			t.Error(err)
		}
		p.stream.Close()
		x.close()
		n.passed(t)
	})
}

// Beside sessions that never leave a gap a pass still gets a piece in a while.
func TestPiecesAreNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn turns
		stop, done := make(chan struct{}), make(chan struct{})
		var pieces int
		turn.begin()
		go func() {
			defer func() { done <- struct{}{} }()
			defer turn.end(0, false)
			for {
				select {
				case <-stop:
					return
				default:
				}
				time.Sleep(10 * time.Millisecond)
				turn.next()
			}
		}()
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if turn.enter(t.Context()) == nil {
					pieces++
					turn.leave()
				}
			}
		}()
		time.Sleep(20 * time.Second)
		close(stop)
		for range 2 {
			<-done
		}
		if pieces < 18 || pieces > 21 {
			t.Errorf("%d pieces in 20 s", pieces)
		}
	})
}

// Beside sessions whose iterations are slow, with pieces that are slower, fewer than one iteration in twenty waits for a
// piece, and the pass goes on all the same.
func TestPiecesAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn turns
		stop, done := make(chan struct{}), make(chan struct{})
		iterations, late, pieces := 0, 0, 0
		turn.begin()
		go func() {
			defer func() { done <- struct{}{} }()
			defer turn.end(0, false)
			for at := time.Now(); ; {
				select {
				case <-stop:
					return
				default:
				}
				time.Sleep(100 * time.Millisecond)
				if iterations++; time.Since(at) > 100*time.Millisecond {
					late++
				}
				at = time.Now()
				turn.next()
			}
		}()
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if turn.enter(t.Context()) == nil {
					pieces++
					time.Sleep(400 * time.Millisecond)
					turn.leave()
				}
			}
		}()
		time.Sleep(time.Minute)
		close(stop)
		for range 2 {
			<-done
		}
		if pieces < 9 || late < 9 || late*20 > iterations {
			t.Errorf("%d of %d iterations were late, by %d pieces", late, iterations, pieces)
		}
	})
}

// Passes wait for each other by class; a client that goes takes its pass out; the server says how
// many come before it; and one that takes too long is ended with its present piece.
func TestPassQueue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, func(c *Config, _ *node) { c.Timeouts.Pass = time.Minute })
		n.loader.passes = &passWorld{pieces: 10, takes: time.Second}
		send := func(from swarm.PeerID, backward bool, sequences int) (*passPeer, wire.Pass) {
			ask := passMsg(backward, slices.Repeat([]int{1}, sequences)...)
			p := w.pass(n, from, ask)
			p.give(ask, input(1, ask.Sent().Total()))
			p.expectType(wire.TypeGrant)
			synctest.Wait()
			return p, ask
		}
		a, askA := send("a", true, 1)
		b, askB := send("b", true, 2)
		c, _ := send("c", true, 3)
		d, askD := send("d", false, 4)
		c.write(wire.AppendFrame(nil, wire.TypeAsk))
		if h := c.progress(); h.Ahead != 3 {
			t.Errorf("%d passes are ahead, want 3", h.Ahead)
		}
		c.stream.Reset()
		for _, x := range []struct {
			p   *passPeer
			ask wire.Pass
		}{{a, askA}, {b, askB}, {d, askD}} {
			if _, err := x.p.result(x.ask); err != nil {
				t.Error(err)
			}
			x.p.stream.Close()
		}
		if got := fmt.Sprint(n.loader.passes.order); got != "[B1 F4 B2]" {
			t.Errorf("computed in the order %s", got)
		}
		n.loader.passes.pieces = 1000
		long, ask := send("a", true, 1)
		began := time.Now()
		if _, err := long.result(ask); err == nil || err.Code != swarm.CodeTimeout || time.Since(began) > 62*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		long.stream.Close()
		n.passed(t)
	})
}

// A failure of the device, rows that are not finite, and a server that drains or stops end passes
// by name, and nothing hangs.
func TestPassFailures(t *testing.T) {
	for name, c := range map[string]struct {
		world passWorld
		do    func(*node)
		code  swarm.Code
	}{
		"an error":     {passWorld{pieces: 1, fails: errors.New("out of order")}, nil, swarm.CodeInternal},
		"bad training": {passWorld{pieces: 1, fails: fmt.Errorf("%w: why", blocks.ErrTraining)}, nil, swarm.CodeBadRequest},
		"not finite":   {passWorld{pieces: 1, poison: true}, nil, swarm.CodeBadOutput},
		"a panic":      {passWorld{pieces: 1, panics: true}, nil, swarm.CodeInternal},
		"a drain":      {passWorld{pieces: 1000, takes: time.Second}, func(n *node) { n.Drain(0) }, swarm.CodeDraining},
		"a stop":       {passWorld{pieces: 1000, takes: time.Second}, func(n *node) { n.stop() }, swarm.CodeDraining},
	} {
		bubble(t, func(t *testing.T, w *world) {
			n := w.serve("a", middle, nil)
			n.loader.passes = &c.world
			ask := passMsg(false, 1)
			p := w.pass(n, "client", ask)
			p.give(ask, input(1, 1))
			synctest.Wait()
			waits := w.pass(n, "waits", ask)
			waits.give(ask, input(1, 1))
			synctest.Wait()
			if c.do != nil {
				c.do(n)
				if _, err := waits.result(ask); err == nil || err.Code != swarm.CodeDraining {
					t.Errorf("%s: the one that waits: %v", name, err)
				}
			}
			if _, err := p.result(ask); err == nil || err.Code != c.code || strings.Contains(err.Message, "out of order") {
				t.Errorf("%s: %v, want %s", name, err, c.code)
			}
			p.stream.Close()
			waits.stream.Close()
		})
	}
}

// However many identities one attacker has, others find memory for their passes.
func TestPassShares(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, func(c *Config, _ *node) { c.Passes.Memory, c.Passes.Rows = 1<<20, 1<<14 })
		ask := passMsg(true, slices.Repeat([]int{100}, 30)...) // 96 kB of 512 KiB
		ask.Length = 100
		for i := range 30 {
			w.pass(n, swarm.PeerID(fmt.Sprint("liar", i)), ask)
		}
		synctest.Wait()
		one := passMsg(false, 5)
		p := w.pass(n, "honest", one)
		p.give(one, input(1, 5))
		began := time.Now()
		if _, err := p.result(one); err != nil || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		p.stream.Close()
		time.Sleep(2 * time.Minute) // those who sent nothing were let go
		n.passed(t)
	})
}

func FuzzPass(f *testing.F) {
	ask := passMsg(true, 2, 1)
	ask.Mode = ask.PassMode().Hash()
	first := wire.AppendJSON(nil, wire.TypePass, ask)
	h := wire.ChunkHeader{Section: wire.SectionInputs, Count: 3, Codec: codec.F32}
	rows := codec.Append(wire.BeginChunk(nil, &h, 12*hidden), codec.F32, input(1, 3))
	f.Add([]byte{})
	f.Add(first)
	f.Add(slices.Concat(first, rows, rows))
	h.Section = wire.SectionGradients
	f.Add(slices.Concat(first, rows, codec.Append(wire.BeginChunk(nil, &h, 12*hidden), codec.F32, input(2, 3)), wire.AppendFrame(nil, wire.TypeAsk)))
	f.Add(wire.AppendFrame(nil, wire.TypePass, []byte(`{"version":2,"lengths":[1,1e9,-4],"prompt":99999999,"ms":-1}`)))
	f.Fuzz(func(t *testing.T, b []byte) {
		bubble(t, func(t *testing.T, w *world) {
			n := w.serve("a", middle, nil)
			a, s := wire.Pipe()
			w.tasks.Go(func() { n.ServePass(w.ctx, "stranger", s) })
			a.Write(b)
			one := passMsg(false, 5)
			p := w.pass(n, "honest", one)
			p.give(one, input(1, 5))
			if _, err := p.result(one); err != nil {
				t.Error(err)
			}
			p.stream.Close()
			a.Close()
			n.passed(t)
		})
	})
}
