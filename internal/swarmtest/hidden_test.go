package swarmtest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"whorl/api"
	"whorl/api/gen"
	"whorl/api/hidden"
	"whorl/client"
	"whorl/client/train"
	"whorl/internal/operations"
	"whorl/swarm"
	"whorl/swarm/trust"
	"whorl/tensor"
)

// researcher is the client's end of a WebSocket for rows, of a gateway in front of a rig's swarm.
type researcher struct {
	t        *testing.T
	c        *websocket.Conn
	ready    gen.HiddenReply
	registry *prometheus.Registry
	id       int64
}

func (r *trainRig) research(t *testing.T) *researcher {
	t.Helper()
	nobody := struct {
		api.Node
		api.Control
		api.Directory
		api.Peering
		api.Settings
		api.Routes
		api.Tasks
		api.Adapting
	}{Directory: noViews{}}
	form := func(f api.Failure, _ string) (string, any) { return "application/json", f }
	registry := prometheus.NewRegistry()
	a, err := api.New(api.Config{
		Engines: func() []api.Engine { return []api.Engine{api.Serve(r.e)} }, Registry: registry,
		Node: nobody, Control: nobody, Directory: nobody, Peering: nobody, Settings: nobody, Routes: nobody, Tasks: nobody, Adapting: nobody, Operations: new(operations.Set),
	}, map[string]api.Form{"openai": form, "anthropic": form, "ollama": form, "legacy": form, "problem": form})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		hidden.Dialect{API: a}.HiddenSocket(w, q, gen.HiddenSocketParams{})
	}))
	t.Cleanup(srv.Close)
	c, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	x := &researcher{t: t, c: c, registry: registry}
	x.ready, _ = x.read()
	if x.ready.Type != gen.HiddenReplyTypeReady || *x.ready.Hidden != r.ck.Config.Hidden || *x.ready.Blocks != 8 {
		t.Fatalf("%+v", x.ready)
	}
	return x
}

type noViews struct{}

func (noViews) Views() []swarm.View { return nil }

// send sends a header, given without its id, and numbers.
func (x *researcher) send(header string, numbers ...any) {
	x.t.Helper()
	x.id++
	var h map[string]any
	if err := json.Unmarshal([]byte(header), &h); err != nil {
		x.t.Fatal(err)
	}
	h["id"] = x.id
	b, _ := json.Marshal(h)
	w := bytes.NewBuffer(binary.LittleEndian.AppendUint32(nil, uint32(len(b))))
	w.Write(b)
	for _, v := range numbers {
		binary.Write(w, binary.LittleEndian, v)
	}
	if err := x.c.WriteMessage(websocket.BinaryMessage, w.Bytes()); err != nil {
		x.t.Fatal(err)
	}
}

func (x *researcher) read() (h gen.HiddenReply, numbers []float32) {
	x.t.Helper()
	x.c.SetReadDeadline(time.Now().Add(time.Minute))
	_, b, err := x.c.ReadMessage()
	if err != nil {
		x.t.Fatal(err)
	}
	n := binary.LittleEndian.Uint32(b)
	if err := json.Unmarshal(b[4:4+n], &h); err != nil {
		x.t.Fatal(err)
	}
	b = b[4+n:]
	if h.Dtype != nil {
		numbers = make([]float32, len(b)/2)
		for i := range numbers {
			numbers[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		}
		return h, numbers
	}
	numbers = make([]float32, len(b)/4)
	binary.Read(bytes.NewReader(b), binary.LittleEndian, numbers)
	return h, numbers
}

// ask asks and wants no error.
func (x *researcher) ask(header string, numbers ...any) (gen.HiddenReply, []float32) {
	x.t.Helper()
	x.send(header, numbers...)
	h, out := x.read()
	if h.Error != nil || h.Id != x.id {
		x.t.Fatalf("%s: id %d of %d, %+v", header, h.Id, x.id, h.Error)
	}
	return h, out
}

// refused asks and wants an error of a code.
func (x *researcher) refused(code swarm.Code, header string, numbers ...any) gen.SocketError {
	x.t.Helper()
	x.send(header, numbers...)
	h, _ := x.read()
	if h.Error == nil || h.Error.Code != string(code) || h.Id != x.id {
		x.t.Fatalf("%s: %+v %+v, want %s", header, h.Type, h.Error, code)
	}
	return *h.Error
}

// held is what of the budget of rows is taken.
func (x *researcher) held() float64 {
	x.t.Helper()
	families, err := x.registry.Gather()
	if err != nil {
		x.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "whorl_budget_used" {
			continue
		}
		for _, m := range f.Metric {
			if m.Label[0].GetValue() == "bytes of rows and gradients" {
				return m.GetGauge().GetValue()
			}
		}
	}
	x.t.Fatal("no budget of rows")
	return 0
}

func ints(v []int) string { b, _ := json.Marshal(v); return string(b) }

// What comes through the WebSocket has the bits of client.Remote, forward and back, for any blocks,
// with prompts and without.
func TestHiddenPasses(t *testing.T) {
	r := newTrainRig(t, thirds(8, 1), nil)
	x := r.research(t)
	for _, span := range []swarm.Span{{Start: 0, End: 8}, {Start: 2, End: 7}} {
		for _, shared := range []bool{false, true} {
			b := r.batch(span, 4, shared)
			m, err := r.e.Remote(span, client.RemoteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			f, err := m.Forward(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			grads := wave(len(f.Outputs), 3, 1)
			rows, prompts, err := f.Backward(t.Context(), grads)
			if err != nil {
				t.Fatal(err)
			}
			about, _ := json.Marshal(map[string]any{"blocks": gen.Span{Start: span.Start, End: span.End}, "lengths": b.Lengths, "prompt": 4, "shared": shared})
			fields := strings.TrimPrefix(string(about), "{")
			h, out := x.ask(`{"type":"forward",`+fields, b.Rows, b.Prompts)
			if bitsOf(out) != bitsOf(f.Outputs) || *h.Rows != 66 || *h.Columns != r.ck.Config.Hidden {
				t.Errorf("blocks %v, shared %v: outputs differ, %+v", span, shared, h)
			}
			h, back := x.ask(`{"type":"backward",`+fields, b.Rows, grads, b.Prompts)
			if bitsOf(back) != bitsOf(rows, prompts) || *h.PromptRows*r.ck.Config.Hidden != len(prompts) {
				t.Errorf("blocks %v, shared %v: gradients differ, %+v", span, shared, h)
			}
		}
	}
	eventually(t, func() bool { return x.held() == 0 })
}

// A session on the WebSocket gives each of its sequences the bits of a pass, in steps of any
// lengths, cut back, and when a server dies.
func TestHiddenSession(t *testing.T) {
	r := newTrainRig(t, thirds(8, 2), nil)
	h, span := r.ck.Config.Hidden, swarm.Span{Start: 0, End: 8}
	b := &client.Batch{Lengths: []int{20, 12}, Rows: wave(32*h, 1, 1), Prompt: 3, Prompts: wave(8*2*3*h, 2, 0.1)}
	m, _ := r.e.Remote(span, client.RemoteOptions{})
	want, err := m.Outputs(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	first, second := b.Rows[:20*h], b.Rows[20*h:]
	w1, w2 := want[:20*h], want[20*h:]
	x := r.research(t)
	x.refused(swarm.CodeNoSession, `{"type":"step","lengths":[1]}`, first[:h])
	opened, _ := x.ask(`{"type":"open","max_length":20,"batch":2,"prompt":3,"activations":"f32"}`, b.Prompts)
	if len(opened.Sessions) != 2 || opened.Sessions[0] == opened.Sessions[1] || x.held() == 0 {
		t.Errorf("%+v, %v bytes held", opened, x.held())
	}
	step := func(lengths []int, last bool, in, out [][]float32) *gen.HiddenReply {
		t.Helper()
		about, _ := json.Marshal(map[string]any{"type": "step", "lengths": lengths, "last": last})
		reply, got := x.ask(string(about), slices.Concat(in...))
		if bitsOf(got) != bitsOf(slices.Concat(out...)) {
			t.Errorf("lengths %v: rows differ", lengths)
		}
		return &reply
	}
	step([]int{5, 2}, false, [][]float32{first[:5*h], second[:2*h]}, [][]float32{w1[:5*h], w2[:2*h]})
	step([]int{1, 0}, false, [][]float32{first[5*h : 6*h]}, [][]float32{w1[5*h : 6*h]})
	for _, s := range r.e.Sessions() {
		if s.ID == opened.Sessions[0] {
			r.w.Server(s.Route[1].Peer).Node.Kill()
		}
	}
	reply := step([]int{4, 8}, true, [][]float32{first[6*h : 10*h], second[2*h : 10*h]}, [][]float32{w1[9*h : 10*h], w2[9*h : 10*h]})
	if *reply.Reroutes == 0 {
		t.Error("nothing was lost")
	}
	x.refused(swarm.CodeBadRequest, `{"type":"step","lengths":[1]}`, first[:h])
	x.refused(swarm.CodeBadRequest, `{"type":"truncate","positions":[3,11]}`)
	// One sequence has no room: neither has moved.
	x.refused(swarm.CodeTooLong, `{"type":"step","lengths":[1,11]}`, make([]float32, 12*h))
	if state, _ := x.ask(`{"type":"truncate","positions":[10,4]}`); !slices.Equal(state.Positions, []int{10, 4}) {
		t.Errorf("%v", state.Positions)
	}
	step([]int{10, 8}, false, [][]float32{first[10*h:], second[4*h:]}, [][]float32{w1[10*h:], w2[4*h:]})
	x.refused(swarm.CodeBadRequest, `{"type":"open","max_length":20}`)
	x.ask(`{"type":"close"}`)
	eventually(t, func() bool { return x.held() == 0 && len(r.e.Sessions()) == 0 })
	x.ask(`{"type":"open","max_length":20,"blocks":{"start":3,"end":5}}`)
	x.c.Close()
	eventually(t, func() bool { return x.held() == 0 && len(r.e.Sessions()) == 0 })
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatal("it does not come to that")
		}
		<-time.After(time.Millisecond)
	}
}

// Embeddings, final norm, logits and losses are those of the model's head, with their gradients; and
// ids that are chosen by them are those of a session of ids.
func TestHiddenHead(t *testing.T) {
	r := newTrainRig(t, thirds(8, 1), nil)
	x, head, h := r.research(t), r.head(1), r.ck.Config.Hidden
	ids := prompt(40, 3)
	rows := make([]float32, len(ids)*h)
	if err := head.Embed(rows, ids); err != nil {
		t.Fatal(err)
	}
	if _, got := x.ask(`{"type":"embed","rows":40}`, ids); bitsOf(got) != bitsOf(rows) {
		t.Error("embeddings differ")
	}
	x.refused(swarm.CodeBadRequest, `{"type":"embed","rows":1}`, []int32{int32(head.Vocab())})
	rows = wave(len(rows), 1, 1)
	want := make([]float32, len(rows))
	head.Normed(want, rows)
	if _, got := x.ask(`{"type":"norm","rows":40}`, rows); bitsOf(got) != bitsOf(want) {
		t.Error("norms differ")
	}
	grads := wave(len(rows), 2, 1)
	head.NormedBackward(want, rows, grads)
	if _, got := x.ask(`{"type":"norm_backward","rows":40}`, rows, grads); bitsOf(got) != bitsOf(want) {
		t.Error("gradients by norms differ")
	}
	logits := make([]float32, 40*head.Vocab())
	for _, mode := range []struct {
		name string
		act  tensor.Activations
	}{{"auto", tensor.Act8}, {"f32", tensor.ActF32}} {
		head.Logits(logits, rows, 40, mode.act)
		if _, got := x.ask(`{"type":"logits","rows":40,"activations":"`+mode.name+`"}`, rows); bitsOf(got) != bitsOf(logits) {
			t.Errorf("logits differ, %s", mode.name)
		}
	}
	_, half := x.ask(`{"type":"logits","rows":40,"dtype":"bf16","activations":"f32"}`, make([]uint16, 40*h))
	if len(half) != len(logits) {
		t.Errorf("%d logits in bfloat16", len(half))
	}
	losses, scratch := make([]float32, 40), make([]float64, head.Vocab())
	for i := range ids {
		loss, _ := train.CrossEntropy(logits[i*head.Vocab():(i+1)*head.Vocab()], int(ids[i]), scratch)
		losses[i] = float32(loss)
	}
	if err := head.Backward(want, rows, logits); err != nil {
		t.Fatal(err)
	}
	if _, got := x.ask(`{"type":"logits_backward","rows":40}`, rows, logits); bitsOf(got) != bitsOf(want) {
		t.Error("gradients by logits differ")
	}
	if _, got := x.ask(`{"type":"loss","rows":40,"grad":true}`, rows, ids); bitsOf(got) != bitsOf(losses, want) {
		t.Error("losses or their gradients differ")
	}
	if _, got := x.ask(`{"type":"loss","rows":40}`, rows, ids); bitsOf(got) != bitsOf(losses) {
		t.Error("losses without gradients differ")
	}

	ask := prompt(12, 3)
	chosen, _ := r.generate(t, client.SessionOptions{}, ask, 10, nil)
	x.ask(`{"type":"open","max_length":22}`)
	next := ask
	var got []int32
	for range 10 {
		about, _ := json.Marshal(map[string]any{"type": "embed", "rows": len(next)})
		_, in := x.ask(string(about), next)
		_, out := x.ask(`{"type":"step","last":true,"lengths":`+ints([]int{len(next)})+`}`, in)
		_, l := x.ask(`{"type":"logits","rows":1}`, out)
		best := 0
		for i, v := range l {
			if v > l[best] {
				best = i
			}
		}
		next = []int32{int32(best)}
		got = append(got, next...)
	}
	if !slices.Equal(got, chosen) {
		t.Errorf("%v, want %v", got, chosen)
	}
}

// A caller who goes away in the middle of a pass, or of a message, leaves nothing behind and has
// no server blamed.
func TestHiddenCallerGone(t *testing.T) {
	r := newTrainRig(t, thirds(8, 1), nil)
	book := trust.NewBook(trust.DefaultParams())
	r.e = r.w.Engine(r.head(1), r.head(1).Vocab(), func(c *client.Config) { c.MaxLength, c.Trust = 256, book })
	x := r.research(t)
	begun := make(chan struct{}, 1000)
	r.heard = func(swarm.PeerID, string) { begun <- struct{}{} }
	b := r.batch(swarm.Span{Start: 0, End: 8}, 0, true)
	x.send(`{"type":"backward","lengths":[66]}`, b.Rows, b.Rows)
	<-begun
	x.c.Close()
	eventually(t, func() bool { return x.held() == 0 })
	r.heard = nil
	y := r.research(t)
	w, err := y.c.NextWriter(websocket.BinaryMessage)
	if err != nil {
		t.Fatal(err)
	}
	header := `{"id":1,"type":"forward","lengths":[66]}`
	w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(header))), header...))
	w.Write(make([]byte, 8<<10)) // of 66 rows: the frame goes out, the message does not end
	y.c.NetConn().Close()
	eventually(t, func() bool { return y.held() == 0 })
	for _, s := range r.e.Sessions() {
		t.Errorf("session %s is left", s.ID)
	}
	for _, s := range book.Standings(time.Now()) {
		if len(s.Counts) > 1 || s.Counts["served"] == 0 || s.Avoid != nil {
			t.Errorf("held against a server: %+v", s)
		}
	}
	z := r.research(t)
	if _, out := z.ask(`{"type":"forward","lengths":`+ints(b.Lengths)+`}`, b.Rows); len(out) != len(b.Rows) {
		t.Errorf("%d values", len(out))
	}
}
