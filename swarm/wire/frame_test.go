package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"whorl/content"
	"whorl/swarm"
)

// The bytes of a frame are the protocol.
func TestFrameBytes(t *testing.T) {
	got := AppendFrame([]byte("x"), TypeDone, Done{Epoch: 2, Position: 513, Step: 7}.Append(nil))
	want := "x" + "\x10\x00\x00\x00" + "\x05" + "\x02\x00\x00\x00" + "\x01\x02\x00\x00" + "\x07\x00\x00\x00\x00\x00\x00\x00"
	if string(got) != want {
		t.Errorf("%q", got)
	}
	h := RowsHeader{Session: SessionID{0: 1, 15: 2}, Epoch: 3, Step: 4, Start: 5, Count: 6, Want: 7, Codec: 8}
	wantRows := "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02" + "\x03\x00\x00\x00" +
		"\x04\x00\x00\x00\x00\x00\x00\x00" + "\x05\x00\x00\x00" + "\x06\x00\x00\x00" + "\x07\x00\x00\x00" + "\x08\x00\x00\x00"
	if got := string(h.Append(nil)); got != wantRows || len(got) != RowsSize {
		t.Errorf("%q", got)
	}
	h.Start, h.Count, h.Beams = 9, 2, Beams{N: 3, Fork: 2, Parents: [MaxBeams]uint8{2, 0, 1}}
	wantBeams := wantRows[:28] + "\x09\x00\x00\x00" + "\x02\x00\x00\x00" + "\x07\x00\x00\x00" + "\x08\x03\x00\x00" + "\x02\x00\x00\x00" + "\x02\x00\x01"
	if got := string(h.Append(nil)); got != wantBeams || len(got) != h.Size() {
		t.Errorf("%q", got)
	}
	types := map[Type]Type{1: TypeOpen, 2: TypeAccept, 3: TypeCommit, 4: TypeRows, 5: TypeDone, 6: TypeJournal, 7: TypeRoute,
		8: TypeAsk, 9: TypeStatus, 10: TypeFail, 11: TypeHello, 12: TypePull, 13: TypeRecords, 14: TypeWant, 15: TypeManifest, 16: TypeReceipt, 22: TypeOffer, 23: TypeChoice}
	for number, name := range types {
		if number != name {
			t.Errorf("type %d is now %d", number, name)
		}
	}
}

func TestReader(t *testing.T) {
	big := bytes.Repeat([]byte("ab"), 3<<20/2)
	var all []byte
	all = AppendFrame(all, TypeCommit)
	all = AppendFrame(all, TypeRows, []byte("head"), big)
	all = AppendJSON(all, TypeAsk+1, Status{Epoch: 1, Position: 2, Step: 3})
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(all), "halves": iotest.HalfReader(bytes.NewReader(all)), "eof with data": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		rd := NewReader(r)
		rd.AllowRows(4 << 10)
		if ty, p, err := rd.Next(); ty != TypeCommit || len(p) != 0 || err != nil {
			t.Fatalf("%s: %d %q %v", name, ty, p, err)
		}
		if ty, p, err := rd.Next(); ty != TypeRows || !bytes.Equal(p, append([]byte("head"), big...)) || err != nil {
			t.Fatalf("%s: %d, %d bytes, %v", name, ty, len(p), err)
		}
		var s Status
		ty, p, err := rd.Next()
		if err != nil || Decode(ty, p, &s) != nil || s != (Status{Epoch: 1, Position: 2, Step: 3}) {
			t.Fatalf("%s: %d %q %v", name, ty, p, err)
		}
		if _, _, err := rd.Next(); err != io.EOF {
			t.Fatalf("%s: %v at the end", name, err)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	frame := func(n uint32, ty byte, payload string) string {
		return string(binary.LittleEndian.AppendUint32(nil, n)) + string(ty) + payload
	}
	for name, c := range map[string]struct {
		in   string
		want error
	}{
		"type 0":        {frame(0, 0, ""), ErrFrame},
		"unknown type":  {frame(0, byte(numTypes), ""), ErrFrame},
		"rows":          {frame(RowsSize, byte(TypeRows), strings.Repeat("x", RowsSize)), ErrFrame},
		"open":          {frame(MaxOpen+1, byte(TypeOpen), ""), ErrFrame},
		"route":         {frame(MaxOpen+1, byte(TypeRoute), ""), ErrFrame},
		"hello":         {frame(MaxHello+1, byte(TypeHello), ""), ErrFrame},
		"status":        {frame(MaxStatus+1, byte(TypeStatus), ""), ErrFrame},
		"fail":          {frame(MaxFail+1, byte(TypeFail), ""), ErrFrame},
		"pull":          {frame(MaxPull+1, byte(TypePull), ""), ErrFrame},
		"records":       {frame(MaxAnswer+1, byte(TypeRecords), ""), ErrFrame},
		"offer":         {frame(MaxOffer+1, byte(TypeOffer), ""), ErrFrame},
		"choice":        {frame(MaxChoice+1, byte(TypeChoice), ""), ErrFrame},
		"all ones":      {frame(1<<32-1, byte(TypeRows), ""), ErrFrame},
		"commit":        {frame(1, byte(TypeCommit), "x"), ErrFrame},
		"long done":     {frame(25, byte(TypeDone), strings.Repeat("x", 25)), ErrFrame},
		"cut header":    {"\x01\x00", io.ErrUnexpectedEOF},
		"no payload":    {frame(3, byte(TypeOpen), ""), io.ErrUnexpectedEOF},
		"cut payload":   {frame(3, byte(TypeOpen), "ab"), io.ErrUnexpectedEOF},
		"nothing there": {"", io.EOF},
	} {
		if ty, p, err := NewReader(strings.NewReader(c.in)).Next(); !errors.Is(err, c.want) || p != nil {
			t.Errorf("%s: %d %q %v", name, ty, p, err)
		}
	}
}

// Rows come only where there is a session for them, and only as many as its model's width
// makes of some chunks.
func TestRowsLimit(t *testing.T) {
	for _, c := range []struct{ rowBytes, limit int }{
		{16, rowsHead + 1<<20}, {4 * 576, rowsHead + 1024*4*576}, {4 * 8192, rowsHead + 16<<20}, {64 << 20, rowsHead + 64<<20}, // one row, however long
	} {
		for _, over := range []int{0, 1} {
			r := NewReader(bytes.NewReader(AppendHeader(nil, TypeRows, c.limit+over)))
			r.AllowRows(c.rowBytes)
			if _, _, err := r.Next(); errors.Is(err, ErrFrame) != (over > 0) || RowsLimit(c.rowBytes) != c.limit {
				t.Errorf("%d bytes of rows of %d: %v, the limit is %d", c.limit+over, c.rowBytes, err, RowsLimit(c.rowBytes))
			}
		}
	}
}

// The first frame of a stream has one type.
func TestFirst(t *testing.T) {
	for ty := TypeOpen; ty < numTypes; ty++ {
		p, err := NewReader(bytes.NewReader(AppendFrame(nil, ty, []byte("{}")))).First(TypeHello)
		if ok := ty == TypeHello; (err == nil) != ok || !ok && !errors.Is(err, ErrFrame) || ok && string(p) != "{}" {
			t.Errorf("type %d first: %q %v", ty, p, err)
		}
	}
}

// A peer that announces much and sends little costs little.
func TestReaderMemory(t *testing.T) {
	for _, sent := range []int{3, freeBytes} {
		r := NewReader(bytes.NewReader(AppendHeader(nil, TypeRows, 16<<20)))
		r.r = io.MultiReader(r.r, bytes.NewReader(make([]byte, sent)))
		r.AllowRows(16 << 20)
		b := &purse{left: 1 << 20}
		r.Charge(t.Context(), nil, b)
		if _, _, err := r.Next(); err == nil || cap(r.buf) > 2*sent+firstPiece || r.large != nil || b.left != 1<<20 {
			t.Errorf("%d bytes for %d, %v", cap(r.buf), sent, err)
		}
	}
}

// purse is a budget that never waits.
type purse struct{ left int }

func (p *purse) Take(_ context.Context, n int) error {
	if n > p.left {
		return errors.New("there is no more")
	}
	p.left -= n
	return nil
}

func (p *purse) Give(n int) { p.left += n }

// What a large frame took is given back before the next one, or when the stream is given up.
func TestReaderGivesBack(t *testing.T) {
	all := AppendFrame(nil, TypeRows, make([]byte, 100<<10))
	r := NewReader(bytes.NewReader(append(all, all...)))
	r.AllowRows(1 << 20)
	b := &purse{left: 100 << 10}
	r.Charge(t.Context(), nil, b)
	for range 2 {
		if _, p, err := r.Next(); err != nil || len(p) != 100<<10 || b.left != 0 {
			t.Fatalf("%d bytes, %v, %d left", len(p), err, b.left)
		}
	}
	if r.Release(); b.left != 100<<10 {
		t.Errorf("%d left at the end", b.left)
	}
}

func TestRows(t *testing.T) {
	h := RowsHeader{Session: SessionID{1, 2}, Epoch: 3, Step: 1 << 40, Start: MaxPosition, Count: MaxRowsCount, Want: 9, Codec: 1}
	got, data, err := ParseRows(append(h.Append(nil), "data"...))
	if err != nil || got != h || string(data) != "data" || got.End() != MaxPosition+MaxRowsCount {
		t.Errorf("%+v %q %v", got, data, err)
	}
	for name, spoil := range map[string]func(*RowsHeader){
		"no rows":  func(h *RowsHeader) { h.Count = 0 },
		"too many": func(h *RowsHeader) { h.Count = MaxRowsCount + 1 },
		"start":    func(h *RowsHeader) { h.Start = MaxPosition + 1 },
		"want":     func(h *RowsHeader) { h.Want = 1<<32 - 1 },
	} {
		bad := h
		spoil(&bad)
		if _, _, err := ParseRows(bad.Append(nil)); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := ParseRows(make([]byte, RowsSize-1)); !errors.Is(err, ErrFrame) {
		t.Errorf("short: %v", err)
	}
	d := Done{Epoch: 1, Position: 2, Step: 3}
	if got, err := ParseDone(d.Append(nil)); err != nil || got != d {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := ParseDone(make([]byte, DoneSize+1)); !errors.Is(err, ErrFrame) {
		t.Errorf("long done: %v", err)
	}
}

// What one end of the session protocol writes the other reads, and members that a newer
// version adds do no harm.
func TestMessages(t *testing.T) {
	open := Open{
		Version: 2, Features: 5, Session: SessionID{0xab, 15: 0xcd}, UID: "u", Mode: content.Hash{0xef}, Span: swarm.Span{Start: 1, End: 3}, MaxLength: 99, Activations: "f32", WaitMillis: 5,
		Route:   Route{Epoch: 2, Truncate: 3, Prev: "p", Next: "n", NextRecord: []byte("signed"), Skip: 4, Journal: -1},
		Adapter: &swarm.Adapter{Name: "poems", Digest: "d1"},
	}
	b, err := json.Marshal(open)
	if err != nil {
		t.Fatal(err)
	}
	const golden = `{"version":2,"features":5,"session":"ab0000000000000000000000000000cd","uid":"u","mode":"ef00000000000000000000000000000000000000000000000000000000000000","span":{"start":1,"end":3},"max_length":99,"activations":"f32","wait_ms":5,` +
		`"route":{"epoch":2,"truncate":3,"prev":"p","next":"n","next_record":"c2lnbmVk","skip":4,"journal":-1},"adapter":{"name":"poems","digest":"d1"}}`
	if string(b) != golden {
		t.Errorf("Open is now %s", b)
	}
	var got Open
	if err := Decode(TypeOpen, []byte(golden[:len(golden)-1]+`,"later":"x"}`), &got); err != nil || got.Session != open.Session || got.Route.Journal != -1 || *got.Adapter != *open.Adapter {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"", "[]", `{"session":"abc"}`, `{"session":"zz0000000000000000000000000000cd"}`} {
		if err := Decode(TypeOpen, []byte(bad), &got); !errors.Is(err, ErrFrame) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A first frame of another version is refused by the names of both, whatever else is in it;
// features that are not known do no harm.
func TestDecodeFirst(t *testing.T) {
	var o Open
	ok := AppendJSON(nil, TypeOpen, Open{Version: Version, Features: 1 << 63})[HeadSize:]
	if err := DecodeFirst(TypeOpen, ok, "server", "client", &o); err != nil || o.Features != 1<<63 {
		t.Errorf("%+v %v", o, err)
	}
	for _, frame := range []string{`{"version":3,"session":[1,2],"uid":{}}`, `{"version":1,"session":"ab"}`, `{}`, `{"version":-1}`} {
		err := DecodeFirst(TypeOpen, []byte(frame), "12D3server", "12D3client", &o)
		if e := swarm.AsError(err); e.Code != swarm.CodeVersion || e.Verdict != swarm.Elsewhere ||
			!strings.Contains(e.Message, "…server speaks version 2") || !strings.Contains(e.Message, "…client speaks") {
			t.Errorf("%s: %v", frame, err)
		}
	}
	for _, frame := range []string{"", "[]", `{"version":"2"}`, `{"version":2,"session":1}`} {
		if err := DecodeFirst(TypeOpen, []byte(frame), "server", "client", &o); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", frame, err)
		}
	}
}

// The mode is made of what alters results: placing, waiting and names are no part of it.
func TestSessionMode(t *testing.T) {
	open := Open{Version: Version, MaxLength: 10, Adapter: &swarm.Adapter{Name: "poems", Digest: "d1"}}
	want := open.SessionMode().Hash()
	for name, c := range map[string]struct {
		change func(*Open)
		same   bool
	}{
		"session": {func(o *Open) { o.Session[0]++ }, true}, "span": {func(o *Open) { o.Span.End++ }, true}, "wait": {func(o *Open) { o.WaitMillis++ }, true},
		"sequences": {func(o *Open) { o.Sequences++ }, true}, "route": {func(o *Open) { o.Route.Epoch++ }, true}, "model": {func(o *Open) { o.UID = "u" }, true},
		"name of the adapter":   {func(o *Open) { o.Adapter = &swarm.Adapter{Name: "prose", Digest: "d1"} }, true},
		"activations spelt out": {func(o *Open) { o.Activations = "auto" }, true},
		"activations":           {func(o *Open) { o.Activations = "f32" }, false},
		"length":                {func(o *Open) { o.MaxLength++ }, false},
		"adapter":               {func(o *Open) { o.Adapter = &swarm.Adapter{Name: "poems", Digest: "d2"} }, false},
		"no adapter":            {func(o *Open) { o.Adapter = nil }, false},
	} {
		o := open
		c.change(&o)
		if same := o.SessionMode().Hash() == want; same != c.same {
			t.Errorf("%s: the mode is the same: %t", name, same)
		}
	}
}

// A failure keeps its code, verdict and blame over the wire, and never its trace.
func TestFail(t *testing.T) {
	cause := errors.New("page 7")
	f := NewFail(3, &swarm.Error{Code: swarm.CodeCacheFull, Verdict: swarm.Again, Message: "full", Err: cause})
	var got Fail
	if err := Decode(TypeFail, AppendJSON(nil, TypeFail, f)[HeadSize:], &got); err != nil {
		t.Fatal(err)
	}
	e := got.Err("sender")
	if e.Code != swarm.CodeCacheFull || e.Verdict != swarm.Again || e.Peer != "sender" || e.Err != nil || got.Epoch != 3 {
		t.Errorf("%+v", e)
	}
	got.Peer = "other"
	if e := got.Err("sender"); e.Peer != "other" {
		t.Errorf("blames %s", e.Peer)
	}
	long := NewFail(0, swarm.Errorf(swarm.CodeInternal, swarm.Fatal, "%s", strings.Repeat("\x00\u00e9", 10_000)))
	if _, _, err := NewReader(bytes.NewReader(AppendJSON(nil, TypeFail, long))).Next(); err != nil {
		t.Errorf("a long text: %v", err)
	}
	if f := NewFail(0, io.EOF); f.Code != swarm.CodeInternal || f.Verdict != swarm.Fatal {
		t.Errorf("%+v", f)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(AppendFrame(nil, TypeCommit))
	f.Add(AppendFrame(AppendJSON(nil, TypeOpen, Open{Version: 1}), TypeRows, (&RowsHeader{Count: 1}).Append(nil), []byte("rows")))
	f.Add([]byte("\xff\xff\xff\xff\x04"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		r.AllowRows(256)
		budget := &purse{left: 1 << 20}
		r.Charge(t.Context(), nil, budget)
		var again []byte
		for {
			ty, p, err := r.Next()
			if err != nil {
				break
			}
			again = AppendFrame(again, ty, p)
			var o Open
			var s Status
			var pull Pull
			var fail Fail
			for _, v := range []any{&o, &s, &pull, &fail} {
				Decode(ty, p, v) // must not panic
			}
		}
		if !bytes.HasPrefix(b, again) {
			t.Errorf("%q was read as %q", b, again)
		}
		if cap(r.buf) > 2*len(b)+firstPiece {
			t.Errorf("%d bytes of memory for %d", cap(r.buf), len(b))
		}
		if r.Release(); budget.left != 1<<20 {
			t.Errorf("%d bytes of the budget are lost", 1<<20-budget.left)
		}
	})
}

func FuzzParseRows(f *testing.F) {
	f.Add((&RowsHeader{Count: 1}).Append(nil))
	f.Add((&RowsHeader{Start: 7, Count: 2, Beams: Beams{N: 3, Fork: 1}}).Append(nil))
	f.Add(Done{Step: 1}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, data, err := ParseRows(b); err == nil {
			if h.Count == 0 || h.End() > MaxPosition+MaxRowsCount || len(data) != len(b)-h.Size() {
				t.Errorf("%+v", h)
			}
			if again, _, err := ParseRows(h.Append(nil)); err != nil || again != h {
				t.Errorf("%+v is written as %+v", h, again)
			}
		}
		if d, err := ParseDone(b); err == nil && !bytes.Equal(d.Append(nil), b) {
			t.Errorf("%+v from %q", d, b)
		}
	})
}

func TestRowsFrame(t *testing.T) {
	data := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	for _, beams := range []Beams{{}, {N: 2, Fork: 3, Parents: [MaxBeams]uint8{0, 1}}} {
		for _, typ := range []Type{TypeRows, TypeJournal} {
			h := RowsHeader{Session: SessionID{9}, Epoch: 1, Step: 4, Start: 3, Count: 2, Want: 4, Codec: 1, Beams: beams}
			f := append(BeginRows([]byte(nil), typ, &h, len(data)), data...)
			if plain := AppendFrame(nil, typ, h.Append(nil), data); !bytes.Equal(f, plain) || len(f) != RowsFrameSize(&h, len(data)) {
				t.Errorf("type %d: %x of %d bytes, want %x", typ, f, RowsFrameSize(&h, len(data)), plain)
			}
			f.Restamp(7)
			h.Epoch = 7
			if plain := AppendFrame(nil, typ, h.Append(nil), data); !bytes.Equal(f, plain) || f.Type() != typ {
				t.Errorf("type %d of another epoch: %x, want %x", f.Type(), f, plain)
			}
		}
	}
}
