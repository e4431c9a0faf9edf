package swarmtest

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"

	"whorl/client"
	"whorl/internal/fixture"
	"whorl/swarm"
)

// Passes with an adapter have the same bits on one server, on two and on eight, however a batch is cut, and their
// gradients are those of torch with the PEFT library (make_gradients.py); without it they have other bits.
func TestPassesThroughAdapters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const blocks = 8
		names := []string{"toy-list", "toy-regex"}
		same := map[string]string{} // bits by adapter
		for _, servers := range []int{1, 2, blocks} {
			r, w, e := adapterWorld(t)
			for i := range servers {
				r.serve(w, fmt.Sprint("server", i), swarm.Span{Start: i * blocks / servers, End: (i + 1) * blocks / servers}, names...)
			}
			for _, name := range append(names, "") {
				for _, rows := range []int{0, 4} {
					bits := r.adaptedPass(t, e, name, rows)
					if same[name] == "" {
						same[name] = bits
					}
					if bits != same[name] {
						t.Errorf("adapter %q through %d servers, passes of %d rows: %s, want %s", name, servers, rows, bits, same[name])
					}
				}
			}
		}
		if same[names[0]] == same[names[1]] || same[names[0]] == same[""] || same[names[1]] == same[""] {
			t.Errorf("adapters change nothing: %v", same)
		}
	})
}

// adaptedPass takes the rows and prompts of a script forward and backward, holds the gradients against what it recorded, and
// names all bits.
func (r *real) adaptedPass(t *testing.T, e *client.Engine, adapter string, rows int) string {
	from := adapter
	if from == "" {
		from = "toy-list" // for its rows
	}
	want := fixture.JSON[struct {
		Lengths     []int
		Prompts     int
		Rows, Table fixture.Floats
	}](t, filepath.Join(adapterDir, from, "grad.json.gz"))
	h, layers, seqs := r.ck.Config.Hidden, r.ck.Config.Layers, len(want.Lengths)
	table := want.Prompts * h
	b := &client.Batch{Lengths: want.Lengths, Prompt: want.Prompts, Prompts: make([]float32, layers*seqs*table)}
	var grads []float32
	for i, n := range want.Lengths {
		b.Rows = append(b.Rows, fixture.Counted(uint64(8*i+1), n*h)...)
		grads = append(grads, fixture.Counted(uint64(8*i+3), n*h)...)
		for at, v := range fixture.Counted(uint64(8*i+2), layers*table) {
			b.Prompts[(at/table*seqs+i)*table+at%table] = v / 2
		}
	}
	m, err := e.Remote(swarm.Span{Start: 0, End: layers}, client.RemoteOptions{Adapter: adapter, Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Forward(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	din, dprompts, err := f.Backward(t.Context(), grads)
	if err != nil {
		t.Fatal(err)
	}
	if adapter != "" {
		want.Rows.Compare(t, "gradients by rows", din)
		var sorted []float32
		for i := range seqs {
			for block := range layers {
				sorted = append(sorted, dprompts[(block*seqs+i)*table:][:table]...)
			}
		}
		want.Table.Compare(t, "gradients by prompts", sorted)
	}
	return bitsOf(f.Outputs, din, dprompts)
}
