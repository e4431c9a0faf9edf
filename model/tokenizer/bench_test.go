package tokenizer

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestPushAllocates: a token costs the string it returns and nothing else.
func TestPushAllocates(t *testing.T) {
	for _, name := range []string{"gpt2", "llama2", "metaspace", "mixed"} {
		tok, _ := loadGolden(t, name)
		ids := encode(t, tok, strings.Repeat("the whorl of petals, 日本語 😀 ", 50), EncodeOptions{})
		s := tok.NewStream(true)
		for _, id := range ids { // grows the scratch
			s.Push(id)
		}
		i := 0
		if n := testing.AllocsPerRun(len(ids), func() { s.Push(ids[i%len(ids)]); i++ }); n > 1 {
			t.Errorf("%s: Push makes %v allocations, want 1 at most", name, n)
		}
	}
}

// TestConcurrentUse lets the race detector look at the shared word cache.
func TestConcurrentUse(t *testing.T) {
	tok, g := loadGolden(t, "smollm2")
	texts := readTexts(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i, text := range texts {
				ids, err := tok.Encode(text, EncodeOptions{})
				if err != nil || len(ids) != len(g.Plain[i]) {
					t.Errorf("%q: %d ids, %v", text, len(ids), err)
				}
			}
		})
	}
	wg.Wait()
}

func benchText() string {
	return strings.Repeat("The whorl of a flower has 5 petals; it's well-known. Größe 日本語 \n", 2000)
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"smollm2", "llama3", "llama2", "bloom"} {
		b.Run(name, func(b *testing.B) {
			tok, _ := loadGolden(b, name)
			text := benchText()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				encode(b, tok, text, EncodeOptions{})
			}
		})
	}
}

// grown is a vocabulary of n tokens, each a token plus one letter. With Gemma's
// number of tokens it has Gemma's number of ways to merge them, too: about two
// for each.
func grown(n int, model string) GGUFVocab {
	v := GGUFVocab{Model: model, Pre: "gpt-2", BOS: -1, EOS: -1, UNK: 0, PAD: -1, EOT: -1, EOM: -1}
	add := func(token string, kind int32) {
		v.Tokens, v.Types = append(v.Tokens, token), append(v.Types, kind)
		v.Scores = append(v.Scores, -float32(len(v.Tokens)))
	}
	add("<unk>", typeUnknown)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), typeByte)
	}
	const letters = "etaoinshrdlcumwfgypbvkjxqz"
	for _, c := range letters {
		add(string(c), 1)
	}
	for next := len(v.Tokens) - len(letters); len(v.Tokens) < n; next++ {
		for k := range 3 {
			if c := letters[(next*7+k*5)%9:][:1]; len(v.Tokens) < n {
				v.Merges = append(v.Merges, v.Tokens[next]+" "+c)
				add(v.Tokens[next]+c, 1)
			}
		}
	}
	return v
}

// BenchmarkLoadGGUF loads vocabularies as large as any in use.
func BenchmarkLoadGGUF(b *testing.B) {
	for _, model := range []string{"gpt2", "llama"} {
		b.Run(model, func(b *testing.B) {
			v := grown(262_144, model)
			merges := 0
			for b.Loop() {
				t, err := FromGGUF(v)
				if err != nil {
					b.Fatal(err)
				}
				merges = t.model.merges.count
			}
			b.ReportMetric(float64(merges), "merges")
		})
	}
}

func BenchmarkPush(b *testing.B) {
	for _, name := range []string{"smollm2", "llama2"} {
		b.Run(name, func(b *testing.B) {
			tok, _ := loadGolden(b, name)
			ids := encode(b, tok, benchText(), EncodeOptions{})
			s := tok.NewStream(true)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.Push(ids[i%len(ids)])
				i++
			}
		})
	}
}
