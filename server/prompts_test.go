package server

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// promptsSeen are what an engine was given.
type promptsSeen struct {
	prompts  []float32 // that were loaded last
	prompted int       // steps with prompts
}

// The fake engine takes prompts and remembers that it did; what they do to rows is tested with
// real blocks (internal/swarmtest).
func (e *fakeEngine) LoadPrompts(values []float32, from, to, rows int) (*blocks.Prompts, error) {
	e.prompts = slices.Clone(values)
	return new(blocks.Prompts), nil
}

func (e *fakeEngine) StepPrompted(b *tensor.Batch, use []int, prompts []*blocks.Prompts, from, to int, mode tensor.Mode, in, out []float32) error {
	e.prompted++
	return e.Step(b, use, from, to, mode, in, out)
}

// promptedOpen asks for a session with prompts of two rows; values are those of the middle blocks.
func promptedOpen() (o wire.Open, values []float32) {
	o = openMsg(middle)
	o.Prompts = &wire.Prompts{Rows: 2}
	all := input(5, 2*modelSize)
	for b := range modelSize {
		o.Prompts.Blocks = append(o.Prompts.Blocks, wire.HashPrompts(all[b*2*hidden:(b+1)*2*hidden]))
	}
	return o, all[middle.Start*2*hidden : middle.End*2*hidden]
}

func promptChunk(section wire.Section, start int, v []float32) []byte {
	h := wire.ChunkHeader{Section: section, Start: uint32(start), Count: uint32(len(v) / hidden), Codec: codec.F32}
	return codec.Append(wire.BeginChunk(nil, &h, 4*len(v)), codec.F32, v)
}

// Prompts come between Accept and Commit, in chunks of any size; then rows are computed with them.
func TestSessionPrompts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		o, values := promptedOpen()
		p := w.dial(n, "client")
		p.id, p.epoch = o.Session, o.Route.Epoch
		p.send(wire.TypeOpen, o)
		if h := p.expect(wire.TypeAccept); h.status.Mode != o.SessionMode().Hash() || h.status.Mode == openMode() {
			t.Errorf("the mode is %s", h.status.Mode.Short())
		}
		p.write(promptChunk(wire.SectionPrompts, 0, values[:3*hidden]))
		p.write(promptChunk(wire.SectionPrompts, 3, values[3*hidden:]))
		p.write(wire.AppendFrame(nil, wire.TypeCommit))
		p.rows(input(1, 3), 0, 3, 0)
		p.expect(wire.TypeRows)
		p.expect(wire.TypeDone)
		if !equalBits(n.engine.prompts, values) || n.engine.prompted != 1 || n.passing.Load().rows.Used() == 0 {
			t.Errorf("%d steps with prompts %v, %d bytes held", n.engine.prompted, n.engine.prompts, n.passing.Load().rows.Used())
		}
		p.close()
		synctest.Wait()
		if used := n.passing.Load().rows.Used(); used != 0 {
			t.Errorf("%d bytes are still held", used)
		}
		n.idle(t)
	})
}

func openMode() (h [32]byte) { o := openMsg(middle); return o.SessionMode().Hash() }

// Whatever comes in another order, or is not what the session names, ends the session, and nothing
// is held for it.
func TestHostilePrompts(t *testing.T) {
	o, values := promptedOpen()
	whole := promptChunk(wire.SectionPrompts, 0, values)
	commit := wire.AppendFrame(nil, wire.TypeCommit)
	other, infinite := slices.Clone(values), slices.Clone(values)
	other[5]++
	infinite[1] = float32(math.Inf(-1))
	plain := openMsg(middle)
	for name, c := range map[string]struct {
		open   wire.Open
		frames [][]byte
	}{
		"commit first":       {o, [][]byte{commit}},
		"half of them":       {o, [][]byte{promptChunk(wire.SectionPrompts, 0, values[:hidden]), commit}},
		"others":             {o, [][]byte{promptChunk(wire.SectionPrompts, 0, other)}},
		"not finite":         {o, [][]byte{promptChunk(wire.SectionPrompts, 0, infinite)}},
		"another section":    {o, [][]byte{promptChunk(wire.SectionInputs, 0, values)}},
		"a gap":              {o, [][]byte{promptChunk(wire.SectionPrompts, 1, values[hidden:])}},
		"too many":           {o, [][]byte{promptChunk(wire.SectionPrompts, 0, append(slices.Clone(values), values...))}},
		"twice":              {o, [][]byte{whole, whole}},
		"nobody asked":       {plain, [][]byte{whole}},
		"after the commit":   {o, [][]byte{whole, commit, whole}},
		"no chunk":           {o, [][]byte{wire.AppendFrame(nil, wire.TypeChunk, []byte("short"))}},
		"silence, then gone": {o, nil},
	} {
		bubble(t, func(t *testing.T, w *world) {
			n := w.serve("a", middle, nil)
			p := w.dial(n, "client")
			p.send(wire.TypeOpen, c.open)
			p.expect(wire.TypeAccept)
			for _, f := range c.frames {
				p.stream.Write(f)
			}
			if c.frames != nil {
				if h := p.expect(wire.TypeFail); h.fail.Code != swarm.CodeBadFrame {
					t.Errorf("%s: %+v", name, h.fail)
				}
			}
			p.close()
			time.Sleep(time.Minute)
			synctest.Wait()
			if used := n.passing.Load().rows.Used(); used != 0 {
				t.Errorf("%s: %d bytes are still held", name, used)
			}
			n.idle(t)
		})
	}
	for name, change := range map[string]func(*wire.Open){
		"no rows":    func(o *wire.Open) { o.Prompts = &wire.Prompts{Blocks: o.Prompts.Blocks} },
		"many rows":  func(o *wire.Open) { o.Prompts = &wire.Prompts{Rows: 1 << 20, Blocks: o.Prompts.Blocks} },
		"few blocks": func(o *wire.Open) { o.Prompts = &wire.Prompts{Rows: 2, Blocks: o.Prompts.Blocks[1:]} },
	} {
		bubble(t, func(t *testing.T, w *world) {
			n := w.serve("a", middle, nil)
			o, _ := promptedOpen()
			change(&o)
			p := w.dial(n, "client")
			p.send(wire.TypeOpen, o)
			if h := p.expect(wire.TypeFail); h.fail.Code != swarm.CodeBadRequest {
				t.Errorf("%s: %+v", name, h.fail)
			}
			p.close()
		})
	}
}
