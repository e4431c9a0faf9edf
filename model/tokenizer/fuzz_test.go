package tokenizer

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// naiveDecode is the decoder chain as the reference defines it, step by step
// over the list of all tokens: what a Stream has to agree with.
func naiveDecode(t testing.TB, tok *Tokenizer, spec json.RawMessage, ids []int32, skip bool) string {
	t.Helper()
	var tokens []string
	for _, id := range ids {
		if s, ok := tok.IDToToken(id); ok && !(skip && tok.IsSpecial(id)) {
			tokens = append(tokens, s)
		}
	}
	var file struct{ Decoder json.RawMessage }
	if err := json.Unmarshal(spec, &file); err != nil {
		t.Fatal(err)
	}
	return strings.Join(naiveStep(t, file.Decoder, tokens), "")
}

func naiveStep(t testing.TB, raw json.RawMessage, tokens []string) []string {
	var d struct {
		Type        string
		Decoders    []json.RawMessage
		Pattern     struct{ String string }
		Content     string
		Start, Stop int
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	var out []string
	switch d.Type {
	case "Sequence":
		for _, sub := range d.Decoders {
			tokens = naiveStep(t, sub, tokens)
		}
		return tokens
	case "ByteLevel":
		var bytes []byte
		for _, s := range tokens {
			bytes = appendUnspelled(bytes, s)
		}
		return []string{validText(string(bytes))}
	case "Fuse":
		return []string{strings.Join(tokens, "")}
	case "Replace":
		for _, s := range tokens {
			out = append(out, strings.ReplaceAll(s, d.Pattern.String, d.Content))
		}
	case "Strip":
		for _, s := range tokens {
			out = append(out, stripEnds(s, []rune(d.Content)[0], d.Start, d.Stop))
		}
	case "ByteFallback":
		var run []byte
		end := func() {
			if utf8.Valid(run) {
				out = append(out, string(run))
			} else {
				out = append(out, strings.Repeat("\uFFFD", len(run)))
			}
			run = nil
		}
		for _, s := range tokens {
			if b := byteToken(s); b >= 0 {
				run = append(run, byte(b))
				continue
			}
			end()
			out = append(out, s)
		}
		end()
	case "Metaspace":
		for i, s := range tokens {
			with := " "
			if i == 0 {
				with = ""
			}
			out = append(out, strings.ReplaceAll(s, "▁", with))
		}
	default:
		t.Fatalf("decoder %q", d.Type)
	}
	return out
}

// stripped is the llama2 golden with a Strip at both ends of the text.
func stripped(t testing.TB) golden {
	g := readGolden[golden](t, "llama2")
	var spec map[string]any
	if err := json.Unmarshal(g.Tokenizer, &spec); err != nil {
		t.Fatal(err)
	}
	steps := spec["decoder"].(map[string]any)["decoders"].([]any)
	steps[len(steps)-1] = map[string]any{"type": "Strip", "content": " ", "start": 2, "stop": 3}
	g.Tokenizer = asJSON(t, spec)
	return g
}

// FuzzStream compares the stream with the reference's definition, on ids that
// no text would give.
func FuzzStream(f *testing.F) {
	type loaded struct {
		tok  *Tokenizer
		spec json.RawMessage
	}
	var all []loaded
	for _, name := range []string{"gpt2", "llama2", "metaspace", "mixed"} {
		tok, g := loadGolden(f, name)
		all = append(all, loaded{tok, g.Tokenizer})
		f.Add(uint8(len(all)-1), []byte{0, 1, 2, 200, 3, 77, 230, 1, 180, 0})
	}
	g := stripped(f)
	tok, err := LoadJSON(g.Tokenizer)
	if err != nil {
		f.Fatal(err)
	}
	all = append(all, loaded{tok, g.Tokenizer})
	space, _ := tok.TokenID("▁")
	f.Add(uint8(len(all)-1), []byte{byte(space >> 8), byte(space), byte(space >> 8), byte(space), 0, 100, byte(space >> 8), byte(space)})
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		data := make([]byte, 2*rng.IntN(20))
		for j := range data {
			data[j] = byte(rng.Uint32())
			if j%2 == 0 {
				data[j] %= 4
			}
		}
		f.Add(uint8(i), data)
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		l := all[int(which)%len(all)]
		var ids []int32
		for i := 0; i+1 < len(data); i += 2 {
			ids = append(ids, (int32(data[i])<<8|int32(data[i+1]))%int32(l.tok.VocabSize()+2))
		}
		for _, skip := range []bool{false, true} {
			want := naiveDecode(t, l.tok, l.spec, ids, skip)
			if got := l.tok.Decode(ids, skip); got != want {
				t.Fatalf("Decode(%v, %v)\n got %q\nwant %q", ids, skip, got, want)
			}
			checkStream(t, l.tok, ids, skip, want)
		}
	})
}

// FuzzRoundTrip: a byte-level vocabulary gives every text back.
func FuzzRoundTrip(f *testing.F) {
	var toks []*Tokenizer
	for _, name := range []string{"smollm2", "gpt2", "llama3", "falcon", "bloom"} {
		tok, _ := loadGolden(f, name)
		toks = append(toks, tok)
	}
	for _, text := range readTexts(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := validText(text)
		for _, tok := range toks {
			ids := encode(t, tok, text, EncodeOptions{})
			for _, id := range ids {
				if tok.IsSpecial(id) {
					t.Fatalf("%q gave the special token %d", text, id)
				}
			}
			if got := tok.Decode(ids, true); got != want {
				t.Fatalf("%q came back as %q", want, got)
			}
			parsed := encode(t, tok, text, EncodeOptions{ParseSpecial: true})
			if got := tok.Decode(parsed, false); got != want {
				t.Fatalf("%q with special tokens came back as %q", want, got)
			}
		}
	})
}

// FuzzScanners compares the hand-written scanners with the regular expression
// engine.
func FuzzScanners(f *testing.F) {
	engines := map[string]*regexp2.Regexp{}
	for pattern := range scanners {
		engines[pattern] = regexp2.MustCompile(pattern, regexp2.None)
		engines[pattern].MatchTimeout = matchLimit
	}
	_, texts := readMany(f)
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = validText(text)
		// The engine does not fold the long s, and has Go's tables.
		if strings.ContainsRune(text, 'ſ') || strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Cn, r) }) {
			return
		}
		for pattern, scan := range scanners {
			want, err := findAll(engines[pattern], text)
			if err != nil {
				t.Fatal(err)
			}
			if got := scanAll(scan, text); !slices.Equal(got, want) {
				t.Fatalf("%q by %q\n got %v\nwant %v", text, pattern, got, want)
			}
		}
	})
}

func FuzzLoadJSON(f *testing.F) {
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`))
	f.Add(asJSON(f, small()))
	g := readGolden[golden](f, "mixed")
	f.Add([]byte(g.Tokenizer))
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1}]},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a*)*b"},"behavior":"MergedWithNext","invert":true}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := LoadJSON(data)
		if err != nil {
			return
		}
		ids, err := tok.Encode("ab <s> ▁x\U0001F600", EncodeOptions{Special: true, ParseSpecial: true})
		if err != nil {
			return
		}
		if got := tok.Decode(ids, false); !utf8.ValidString(got) {
			t.Fatalf("Decode(%v) = %q", ids, got)
		}
	})
}

// FuzzTemplate: no template ends the process or runs for ever.
func FuzzTemplate(f *testing.F) {
	g := readGolden[chatGolden](f, "chats")
	for _, kind := range g.Templates {
		f.Add(kind.Source)
	}
	f.Add("{% macro f(a, b='x') -%}{{ a ~ b }}{%- endmacro %}{{ f(1) }}{% raw %}{{{% endraw %}{#- c -#}")
	f.Add("{% set ns = namespace(x=[1,2][::-1]) %}{{ ns.x[0:1] }}{{ {'a': 1}|tojson(indent=2) }}")
	f.Fuzz(func(t *testing.T, source string) {
		tok, err := chatter(t, source)
		if err != nil {
			return
		}
		ids, err := tok.EncodeChat([]Message{{Role: "system", Content: "s"}, {Role: "user", Content: "é <s> x"}, {Role: "assistant", Content: "1"}}, true)
		if err != nil {
			return
		}
		if len(ids) > 1<<22 {
			t.Fatalf("%d ids", len(ids))
		}
	})
}

// TestJoinsAgree compares the two ways to merge, on words of any length.
func TestJoinsAgree(t *testing.T) {
	tok, _ := loadGolden(t, "llama2")
	rng := rand.New(rand.NewPCG(3, 4))
	letters := []rune("▁theanditorsc▁")
	for range 2000 {
		word := make([]rune, 1+rng.IntN(shortWord))
		for i := range word {
			word[i] = letters[rng.IntN(len(letters))]
		}
		symbols := tok.model.symbols(nil, string(word))
		short, long := slices.Clone(symbols), slices.Clone(symbols)
		short, long = short[:tok.model.joinShort(short)], long[:tok.model.joinLong(long)]
		if !slices.Equal(short, long) {
			t.Fatalf("%q: %v by scanning, %v by the heap", string(word), short, long)
		}
	}
}
