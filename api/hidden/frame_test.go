package hidden

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/internal/operations"
	"whorl/swarm"
)

func testAPI(t testing.TB) *api.API {
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
	}{}
	form := func(api.Failure, string) (string, any) { return "", nil }
	a, err := api.New(api.Config{Engines: func() []api.Engine { return nil }, Node: nobody, Control: nobody, Directory: nobody, Peering: nobody, Settings: nobody, Routes: nobody, Tasks: nobody, Adapting: nobody, Operations: new(operations.Set)},
		map[string]api.Form{"openai": form, "anthropic": form, "ollama": form, "legacy": form, "problem": form})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var testModel = model{client.Model{Name: "toy", Manifest: swarm.Manifest{Blocks: 8, Hidden: 4}, Vocab: 10, MaxLength: 100}, 4}

func message(header string, numbers ...any) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(header)))
	w := bytes.NewBuffer(append(b, header...))
	for _, v := range numbers {
		binary.Write(w, binary.LittleEndian, v)
	}
	return w.Bytes()
}

// readAll reads a message as a socket does, with a budget that has all.
func readAll(a *api.API, b []byte) (*request, error) {
	r := bytes.NewReader(b)
	header, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	q := &request{}
	if q.HiddenRequest, err = parse(a, header); err != nil {
		return nil, err
	}
	if q.size, err = testModel.sizeOf(&q.HiddenRequest); err == nil {
		err = q.read(r)
	}
	return q, err
}

// Messages are read as they are meant, or refused with a reason; nothing behind the numbers is taken.
func TestMessages(t *testing.T) {
	a := testAPI(t)
	floats := func(n int) []float32 { return make([]float32, n) }
	for _, c := range []struct {
		header  string
		numbers []any
		want    string // in the error; "" for none
		size    size   // but for bytes
	}{
		{`{"id":1,"type":"step","lengths":[2,0,1]}`, []any{floats(12)}, "", size{rows: 12, values: 12}},
		{`{"id":1,"type":"step","lengths":[2,1],"dtype":"bf16"}`, []any{make([]uint16, 12)}, "", size{rows: 12, values: 12}},
		{`{"id":1,"type":"forward","lengths":[3,2],"prompt":2,"blocks":{"start":1,"end":4}}`, []any{floats(20), floats(3 * 2 * 2 * 4)}, "", size{rows: 20, prompts: 48, values: 68}},
		{`{"id":1,"type":"backward","lengths":[3,2],"prompt":2,"shared":true}`, []any{floats(20), floats(20), floats(8 * 2 * 4)}, "", size{rows: 20, grads: 20, prompts: 64, values: 104}},
		{`{"id":1,"type":"open","max_length":9,"batch":3,"prompt":1}`, []any{floats(8 * 3 * 4)}, "", size{prompts: 96, values: 96}},
		{`{"id":1,"type":"embed","rows":3}`, []any{[]int32{1, 2, 3}}, "", size{ids: 3, values: 3}},
		{`{"id":1,"type":"logits_backward","rows":2}`, []any{floats(8), floats(20)}, "", size{rows: 8, grads: 20, values: 28}},
		{`{"id":1,"type":"loss","rows":2,"grad":true}`, []any{floats(8), []int32{1, 2}}, "", size{rows: 8, ids: 2, values: 10}},
		{`{"id":1,"type":"close"}`, nil, "", size{}},
		{`{"id":1,"type":"step","lengths":[2,1]}`, []any{floats(11)}, "less behind the header than the 12 values", size{}},
		{`{"id":1,"type":"step","lengths":[2,1]}`, []any{floats(12), []byte{0}}, "more behind a header of the type step than the 12 values", size{}},
		{`{"id":1,"type":"step","lengths":[1]}`, []any{[]float32{1, float32(math.NaN()), 0, 0}}, "not finite", size{}},
		{`{"id":1,"type":"step"}`, nil, "lengths is missing", size{}},
		{`{"id":1,"type":"step","lengths":[0]}`, nil, "no rows in it", size{}},
		{`{"id":1,"type":"step","lengths":[65536,1]}`, nil, "more than 65536 rows", size{}},
		{`{"id":1,"type":"embed"}`, nil, "rows is missing", size{}},
		{`{"id":1,"type":"open","max_length":101}`, nil, "want 1 to 100", size{}},
		{`{"id":1,"type":"open"}`, nil, "want 1 to 100", size{}},
		{`{"id":1,"type":"forward","lengths":[1],"blocks":{"start":3,"end":9}}`, nil, "blocks 3:9: toy has blocks 0:8", size{}},
		{`{"id":1,"type":"forward","lengths":[1],"blocks":{"start":3,"end":3}}`, nil, "blocks 3:3", size{}},
		{`{"id":1,"type":"forward","lengths":[` + strings.Repeat("1,", 4000) + `1],"prompt":1024}`, nil, "at most 16777216 in all", size{}},
		{`{"id":1,"type":"fly"}`, nil, "type", size{}},
		{`{"id":1,"type":"step","lengths":[1],"rows":1}`, nil, "the field rows, which says nothing there", size{}},
		{`{"id":1,"type":"step","lengths":[1],"row":1}`, nil, `unknown field "row"`, size{}},
		{`{"id":-1,"type":"close"}`, nil, "id", size{}},
		{`{"type":"close"}`, nil, "id", size{}},
		{`{`, nil, "not valid JSON", size{}},
	} {
		q, err := readAll(a, message(c.header, c.numbers...))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || swarm.AsError(err).Verdict != swarm.Caller {
				t.Errorf("%.80s: %v, want %q", c.header, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.header, err)
			continue
		}
		if bytes := q.size.bytes; q.Type != gen.HiddenRequestTypeClose && bytes < 4*int64(q.size.values) {
			t.Errorf("%s takes %d bytes", c.header, bytes)
		}
		if q.size.bytes = 0; q.size != c.size || len(q.rows) != c.size.rows || len(q.grads) != c.size.grads || len(q.prompts) != c.size.prompts || len(q.ids) != c.size.ids {
			t.Errorf("%s: %+v, want %+v", c.header, q.size, c.size)
		}
	}
	for _, b := range [][]byte{nil, {1, 0}, {9, 0, 0, 0, '{'}, {0, 0, 2, 0}, {255, 255, 255, 255}} {
		if _, err := readAll(a, b); swarm.CodeOf(err) != api.CodeFrame {
			t.Errorf("%v: %v", b, err)
		}
	}
}

// A header that announces much takes no memory before the budget was asked, and less than it was.
func TestSizesAreBounds(t *testing.T) {
	big := testModel
	big.hidden, big.Vocab, big.MaxLength = 8192, 256000, 1<<20
	a := testAPI(t)
	for _, header := range []string{
		`{"id":1,"type":"backward","lengths":[65536],"prompt":1024,"shared":true}`,
		`{"id":1,"type":"logits_backward","rows":65536}`,
		`{"id":1,"type":"open","max_length":1048576,"batch":64}`,
	} {
		q, err := parse(a, []byte(header))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := big.sizeOf(&q)
		runtime.ReadMemStats(&after)
		if err != nil || s.bytes < 4<<30 {
			t.Errorf("%s: %+v, %v", header, s, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("%s: %d bytes were taken", header, n)
		}
	}
}

// Replies have their header and their numbers, rounded where they are asked so.
func TestReplies(t *testing.T) {
	p := rowsReply(gen.HiddenReplyTypeRows, 2, []float32{1, 1.0000001}, []float32{3, 4})
	b, err := p.encode()
	if err != nil {
		t.Fatal(err)
	}
	if want := message(`{"columns":2,"id":0,"rows":2,"type":"rows"}`, []float32{1, 1.0000001, 3, 4}); !bytes.Equal(b, want) {
		t.Errorf("%q, want %q", b, want)
	}
	half := gen.HiddenReplyDtypeBf16
	p.Dtype = &half
	if b, err = p.encode(); err != nil {
		t.Fatal(err)
	}
	if want := message(`{"columns":2,"dtype":"bf16","id":0,"rows":2,"type":"rows"}`, []uint16{0x3f80, 0x3f80, 0x4040, 0x4080}); !bytes.Equal(b, want) {
		t.Errorf("%q, want %q", b, want)
	}
	p.values[0][0] = math.MaxFloat32
	if _, err = p.encode(); swarm.AsError(err).Verdict != swarm.Caller {
		t.Errorf("beyond bfloat16: %v", err)
	}
}

// FuzzMessage: whatever comes is a request within its sizes, or an error of the caller's.
func FuzzMessage(f *testing.F) {
	a := testAPI(f)
	for _, m := range [][]byte{
		message(`{"id":1,"type":"step","lengths":[1],"dtype":"bf16"}`, []uint16{1, 2, 3, 4}),
		message(`{"id":1,"type":"backward","lengths":[1,1],"prompt":1}`, make([]float32, 8+8+64)),
		message(`{"id":1,"type":"open","max_length":10,"batch":2,"prompt":1,"shared":true}`, make([]float32, 32)),
		message(`{"id":1,"type":"loss","rows":1,"grad":true}`, []float32{1, 2, 3, 4}, []int32{5}),
		message(`{"id":1e3,"type":"truncate","positions":[1,null]}`),
		message(`{"id":1,"type":"embed","rows":60000}`, []int32{1}),
		{1, 2, 3},
	} {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := readAll(a, b)
		if err != nil {
			if swarm.AsError(err).Verdict != swarm.Caller || swarm.CodeOf(err) == swarm.CodeInternal {
				t.Errorf("%v", err)
			}
			return
		}
		if n := len(q.rows) + len(q.grads) + len(q.prompts) + len(q.ids); n != q.size.values || 2*n > len(b) || 4*int64(n) > q.size.bytes && n > 0 {
			t.Errorf("%d values of %d bytes, %+v", n, len(b), q.size)
		}
		if err := q.read(io.MultiReader()); err == nil && q.size.values > 0 {
			t.Error("numbers out of nothing")
		}
	})
}
