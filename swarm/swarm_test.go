package swarm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

func record() Record {
	decode, prefill := 812.5, 4000.25
	return Record{
		Protocol: 2, Features: 6, Peer: "12D3KooWA", Addrs: []string{"/ip4/10.0.0.1/tcp/4001"}, UID: manifest().UID(),
		Span: Span{10, 12}, State: Online, Seq: 1_800_000_000_000, Issued: 1_800_000_000_000, Expires: 1_800_000_060_000,
		PublicName: "Ada's <box>", Version: "whorl/0.1",
		Rates: Rates{InferenceRPS: &decode, ForwardRPS: &prefill}, Throughput: 400,
		CacheTotal: 8192, CacheLeft: 4096, MaxLength: 2048, Relay: true, NextRTT: map[PeerID]float64{"12D3KooWB": 1.25},
	}
}

// What a server intends is part of its record, and its future is what others reckon with.
func TestIntent(t *testing.T) {
	r := record()
	r.State = Joining
	if !r.Final() || r.Choosing() {
		t.Errorf("one that joins without more words has chosen: %v, %v", r.Final(), r.Choosing())
	}
	r.State, r.Next, r.Load = Online, &Intent{Span: Span{4, 9}, Open: true}, &Load{Busy: 0.5, Sessions: 3, Waiting: 1}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeRecord(b)
	if err != nil || !got.Choosing() || got.Final() || *got.Next != *r.Next || *got.Load != *r.Load {
		t.Errorf("%+v, %v", got, err)
	}
	if got.Next.Open = false; got.Choosing() || !got.Final() {
		t.Error("a final intent is still being chosen")
	}
}

func TestRecordValidate(t *testing.T) {
	many := func(n int) []string { return strings.Split(strings.Repeat("x,", n-1)+"x", ",") }
	for name, spoil := range map[string]func(*Record){
		"no peer":               func(r *Record) { r.Peer = "" },
		"long peer":             func(r *Record) { r.Peer = PeerID(strings.Repeat("x", 129)) },
		"empty span":            func(r *Record) { r.Span.End = r.Span.Start },
		"negative span":         func(r *Record) { r.Span = Span{-2, 0} },
		"span beyond the model": func(r *Record) { r.Manifest, r.Span = manifest(), Span{29, 31} },
		"span beyond all":       func(r *Record) { r.Span = Span{0, MaxBlocks + 1} },
		"addresses":             func(r *Record) { r.Addrs = many(33) },
		"address long":          func(r *Record) { r.Addrs = []string{strings.Repeat("x", 257)} },
		"name":                  func(r *Record) { r.PublicName = strings.Repeat("x", 129) },
		"version":               func(r *Record) { r.Version = strings.Repeat("x", 129) },
		"cache":                 func(r *Record) { r.CacheLeft = r.CacheTotal + 1 },
		"intent":                func(r *Record) { r.Next = &Intent{Span: Span{0, MaxBlocks + 1}} },
		"intent of nothing":     func(r *Record) { r.Next = &Intent{} },
		"intent of long ago":    func(r *Record) { r.Next = &Intent{Open: true, Since: -1} },
		"load":                  func(r *Record) { r.Load = &Load{Busy: 1.5} },
		"load of no number":     func(r *Record) { r.Load = &Load{Busy: math.NaN()} },
		"sessions":              func(r *Record) { r.Load = &Load{Sessions: -1} },
		"negative cache":        func(r *Record) { r.CacheLeft = -1 },
		"length":                func(r *Record) { r.MaxLength = -1 },
		"born dead":             func(r *Record) { r.Expires = r.Issued },
		"far-future expiry":     func(r *Record) { r.Expires = r.Issued + MaxLifetime.Milliseconds() + 1 },
		"times that overflow":   func(r *Record) { r.Issued, r.Expires = math.MinInt64, math.MaxInt64 },
		"cache beyond any":      func(r *Record) { r.CacheTotal = MaxTokens + 1 },
		"sessions beyond any":   func(r *Record) { r.MaxLength = MaxTokens + 1 },
		"throughput beyond any": func(r *Record) { r.Throughput = 1.7e308 },
		"rate beyond any":       func(r *Record) { x := 2 * MaxRate; r.Rates.InferenceRPS = &x },
		"round trip beyond any": func(r *Record) { r.NextRTT = map[PeerID]float64{"p": 1e300} },
		"throughput":            func(r *Record) { r.Throughput = math.Inf(1) },
		"rate":                  func(r *Record) { x := -1.0; r.Rates.NetworkRPS = &x },
		"round trip":            func(r *Record) { r.NextRTT = map[PeerID]float64{"p": math.NaN()} },
		"no model":              func(r *Record) { r.UID = "" },
		"model cut":             func(r *Record) { r.UID = r.UID[:32] },
		"model in capitals":     func(r *Record) { r.UID = UID(strings.ToUpper(string(r.UID))) },
	} {
		r := record()
		spoil(&r)
		if err := r.Validate(); !errors.Is(err, ErrBadRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]Span{"0:10": {0, 10}, "7:8": {7, 8}} {
		if got, err := ParseSpan(text); err != nil || got != want {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, bad := range []string{"", ":", "3", "3:", ":3", "3:3", "4:3", "-1:3", "0:10:20", "0:10 ", "0: 10", "0x1:3", "a:b", "0:99999999999999999999"} {
		if s, err := ParseSpan(bad); err == nil || !strings.Contains(err.Error(), "START:END") {
			t.Errorf("%q: %v %v", bad, s, err)
		}
	}
}

func TestView(t *testing.T) {
	at := func(p PeerID, seq uint64, s State, start, end int) Record {
		return Record{Peer: p, Seq: seq, State: s, Span: Span{start, end}}
	}
	v := NewView(Manifest{Blocks: 8}, time.Time{}, []Record{
		at("b", 1, Online, 0, 8), at("a", 3, Online, 0, 3), at("b", 2, Joining, 2, 5), at("c", 1, Draining, 0, 8),
	})
	var got []string
	for _, r := range v.Servers {
		got = append(got, fmt.Sprint(r.Peer, r.Seq))
	}
	if fmt.Sprint(got) != "[a3 b2 c1]" {
		t.Errorf("servers %v", got)
	}
	if got := fmt.Sprint(v.Counts(Online), v.Counts(Joining)); got != "[1 1 1 0 0 0 0 0] [1 1 2 1 1 0 0 0]" {
		t.Errorf("counts %s", got)
	}
	if got := FormatSpans(v.Missing()); got != "3-7" {
		t.Errorf("missing %s", got)
	}
	if got := FormatSpans(SpansWhere(6, func(b int) bool { return b != 1 && b != 4 })); got != "0, 2-3, 5" {
		t.Errorf("missing %s", got)
	}
	if r, ok := v.Server("b"); !ok || r.Seq != 2 {
		t.Errorf("server b: %v %v", r, ok)
	}
	if _, ok := v.Server("bb"); ok {
		t.Error("found a server that is not there")
	}
}

func TestErrors(t *testing.T) {
	err := fmt.Errorf("open: %w", Errorf(CodeTimeout, Again, "no answer: %w", io.EOF))
	if !errors.Is(err, io.EOF) || !errors.Is(err, &Error{Code: CodeTimeout}) || errors.Is(err, &Error{Code: CodeGap}) {
		t.Errorf("chain of %v", err)
	}
	if e := AsError(err); e.Verdict != Again || e.Error() != "no answer: EOF" {
		t.Errorf("%+v", e)
	}
	if e := AsError(io.EOF); e.Code != CodeInternal || e.Verdict != Fatal {
		t.Errorf("%+v", e)
	}
	if e := (&Error{Message: "dial", Err: io.EOF}); e.Error() != "dial: EOF" || !errors.Is(e, io.EOF) {
		t.Errorf("%v", e)
	}
	if CodeOf(nil) != "" || CodeOf(err) != CodeTimeout {
		t.Error("codes")
	}
}

func FuzzParseSpan(f *testing.F) {
	f.Add("0:10")
	f.Add("-1:+3")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpan(text)
		if err != nil {
			return
		}
		if s.Start < 0 || s.Start >= s.End {
			t.Errorf("%q: %v", text, s)
		}
		if again, err := ParseSpan(s.String()); err != nil || again != s {
			t.Errorf("%q: %v is written as %v", text, s, again)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	b, err := json.Marshal(record())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"state":"online","span":{"start":-1,"end":9e99}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			return
		}
		NewView(Manifest{Blocks: 8}, time.Time{}, []Record{*r}).Missing()
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeRecord(again); err != nil && len(again) <= MaxRecordBytes {
			t.Errorf("%s is accepted and written as %s: %v", b, again, err)
		}
	})
}
