package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"whorl/content"
	"whorl/swarm"
)

func TestPassFrame(t *testing.T) {
	p := Pass{Version: 2, Features: 5, UID: "u", Mode: content.Hash{0xef}, Span: swarm.Span{Start: 1, End: 3}, Backward: true, Lengths: []int{3, 1}, Prompt: 1, Shared: true, Length: 9, Millis: 5}
	const want = `{"version":2,"features":5,"uid":"u","mode":"ef00000000000000000000000000000000000000000000000000000000000000","span":{"start":1,"end":3},"backward":true,"lengths":[3,1],"prompt":1,"shared":true,"length":9,"ms":5}`
	if got := AppendJSON(nil, TypePass, p)[HeadSize:]; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if p.PassMode().Hash() == (&Pass{Length: 9, Adapter: &swarm.Adapter{Digest: "x"}}).PassMode().Hash() {
		t.Error("an adapter alters no mode")
	}
	// The largest that is allowed fits its frame.
	p.Lengths = slices.Repeat([]int{MaxPassRows / MaxPassSequences}, MaxPassSequences)
	if n := len(AppendJSON(nil, TypePass, p)) - HeadSize; n > MaxPass {
		t.Errorf("a pass of %d sequences takes %d bytes", MaxPassSequences, n)
	}
}

// Sections come in order, each whole, in chunks of any size.
func TestSections(t *testing.T) {
	for _, c := range []struct {
		p        Pass
		sent     string
		returned string
	}{
		{Pass{Lengths: []int{3, 2}}, "1:5", "4:5"},
		{Pass{Lengths: []int{3, 2}, Backward: true}, "1:5 2:5", "5:5"},
		{Pass{Lengths: []int{3, 2}, Prompt: 2, Span: swarm.Span{Start: 4, End: 7}}, "1:5 3:12", "4:5"},
		{Pass{Lengths: []int{3, 2}, Prompt: 2, Shared: true, Backward: true, Span: swarm.Span{Start: 4, End: 7}}, "1:5 2:5 3:6", "5:5 6:12"},
	} {
		for i, s := range []*Sections{c.p.Sent(), c.p.Returned()} {
			for _, rows := range []int{1, 2, 4, 100} {
				var got []string
				next := 0
				take := *s
				total := 0
				if err := s.Each(rows, func(h ChunkHeader, at int) error {
					if at != total || h.Count < 1 || int(h.Count) > rows {
						t.Errorf("%+v at %d", h, at)
					}
					total += int(h.Count)
					if h.Start == 0 {
						got = append(got, "")
						next = 0
					}
					next += int(h.Count)
					got[len(got)-1] = fmt.Sprintf("%d:%d", h.Section, next)
					return take.Take(&h)
				}); err != nil || !take.Done() || total != s.Total() {
					t.Errorf("%+v in chunks of %d: %v", c.p, rows, err)
				}
				if text := fmt.Sprint(got); text != "["+[]string{c.sent, c.returned}[i]+"]" {
					t.Errorf("%+v: %s", c.p, text)
				}
			}
		}
	}
	s := (&Pass{Lengths: []int{3}, Backward: true}).Sent()
	for _, h := range []ChunkHeader{{Section: SectionGradients, Count: 1}, {Section: SectionInputs, Start: 1, Count: 1}, {Section: SectionInputs, Count: 4}, {Section: SectionOutputs, Count: 1}} {
		if err := s.Take(&h); !errors.Is(err, ErrFrame) {
			t.Errorf("%+v came first", h)
		}
	}
}

func TestPassValidate(t *testing.T) {
	ok := Pass{Span: swarm.Span{Start: 0, End: 2}, Lengths: []int{3, 2}, Prompt: 2, Length: 3, Millis: 1}
	if err := ok.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, change := range []func(*Pass){
		func(p *Pass) { p.Lengths = nil },
		func(p *Pass) { p.Lengths = make([]int, MaxPassSequences+1) },
		func(p *Pass) { p.Lengths[0] = 0 },
		func(p *Pass) { p.Lengths[0] = 4 },
		func(p *Pass) { p.Lengths[0], p.Length = MaxPassRows+1, MaxPosition },
		func(p *Pass) { p.Lengths, p.Length = slices.Repeat([]int{1 << 15}, 3), 1<<15 },
		func(p *Pass) { p.Prompt = 3 },
		func(p *Pass) { p.Prompt = -1 },
		func(p *Pass) { p.Span.Start = 2 },
		func(p *Pass) { p.Span.Start = -1 },
		func(p *Pass) { p.Length = MaxPosition + 1 },
		func(p *Pass) { p.Length = -1 },
		func(p *Pass) { p.Millis = 0 },
		func(p *Pass) { p.Span.End = 1 << 40 },
	} {
		p := ok
		p.Lengths = slices.Clone(ok.Lengths)
		if change(&p); p.Validate() == nil {
			t.Errorf("case %d is accepted: %+v", i, p)
		}
	}
}

// Prompts are named by all of their blocks and rows.
func TestPromptsHash(t *testing.T) {
	p := Prompts{Rows: 1, Blocks: []content.Hash{HashPrompts([]float32{1, 2}), HashPrompts([]float32{3, 4})}}
	if got := p.Hash().String(); got[:16] != "610affdd569d8cde" {
		t.Errorf("the name of prompts changed: %s", got)
	}
	open := Open{Prompts: &p}
	if open.SessionMode().Hash() == (&Open{}).SessionMode().Hash() {
		t.Error("prompts alter no mode")
	}
	for i, bad := range []Prompts{{Rows: 0, Blocks: p.Blocks}, {Rows: 9, Blocks: p.Blocks}, {Rows: 1, Blocks: p.Blocks[:1]}} {
		if bad.Validate(2, 8) == nil {
			t.Errorf("case %d is accepted", i)
		}
	}
	if err := p.Validate(2, 8); err != nil || p.Sent(2).Total() != 2 {
		t.Error(err)
	}
}

func FuzzPass(f *testing.F) {
	f.Add([]byte(`{"lengths":[1,2],"span":"0:3","length":4,"ms":1,"prompt":1}`), []byte{})
	f.Add([]byte(`{"lengths":[65536],"span":"0:9","length":65536,"ms":1,"backward":true}`), BeginChunk(nil, &ChunkHeader{Section: SectionInputs, Count: 2}, 0)[HeadSize:])
	f.Fuzz(func(t *testing.T, frame, chunk []byte) {
		var p Pass
		if Decode(TypePass, frame, &p) == nil && p.Validate() == nil {
			if p.Rows() < 1 || p.Rows() > MaxPassRows || p.Sent().Total() > 2*MaxPassRows+MaxSectionRows || p.Returned().Total() > MaxPassRows+MaxSectionRows {
				t.Errorf("%+v: %d rows, %d and %d in all", p, p.Rows(), p.Sent().Total(), p.Returned().Total())
			}
			if b, err := json.Marshal(p); err != nil || Decode(TypePass, b, new(Pass)) != nil {
				t.Errorf("%+v is written as %s", p, b)
			}
		}
		h, data, err := ParseChunk(chunk)
		if err != nil {
			return
		}
		again := append(BeginChunk(nil, &h, len(data)), data...)
		if chunk[2], chunk[3] = 0, 0; !bytes.Equal(again[HeadSize:], chunk) {
			t.Errorf("%x is written as %x", chunk, again[HeadSize:])
		}
		p.Sent().Take(&h) // must not panic
	})
}
