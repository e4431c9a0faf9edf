package grammar

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// kinds are texts of all kinds that schemas ask for, with an answer each.
var kinds = []struct{ name, schema, answer string }{
	{"mixed", benchSchema, benchAnswer},
	{"bounded", `{"type":"string","maxLength":200}`, `"a longer text, with commas: and colons, that goes on for a while"`},
	{"short", `{"type":"string","minLength":3,"maxLength":12}`, `"a longer te"`},
	{"object", `{"type":"object"}`, `{"name": "hello", "other": [1, 2, {"x": null}]}`},
	{"open", `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"size":{"type":"integer"},"error":{"type":"string"}},"additionalProperties":{"type":"string"}}`, `{"name": "hello there", "other": "x y", "nam": "z"}`},
	{"letters", `{"type":"string","pattern":"^[A-Za-z ]+$"}`, `"a longer text"`},
	{"unicode", `{"type":"string","pattern":"^\\p{L}+( \\p{L}+)*$"}`, `"a longer text"`},
	{"search", `{"type":"string","pattern":"ab"}`, `"a longer text with ab in it"`},
	{"lines", `{"type":"string","pattern":"^.{1,100}$"}`, `"a longer text"`},
}

// Whatever is known beforehand of tokens, and however they are walked: a mask has exactly those
// that the matcher takes byte by byte.
func TestMaskIsWhatItsTokensTake(t *testing.T) {
	bytes := words(6000)
	for _, s := range []string{"“", "”", " —", "…\n", "\u2028", "\u00a0", "\u3000", "日本語", "\x7f", "x\x7f", "\xff", "é\xe2", "\xe2\x80", "quiz", " jazz", "aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbb", "<|x|>", "</thinkx", "ab\"", "abb", "babb"} {
		bytes = append(bytes, s)
	}
	v := NewVocabulary(len(bytes), func(id int32, _ bool) []byte { return []byte(bytes[id]) }, nil)
	rng := rand.New(rand.NewPCG(5, 6))
	all := specs
	for _, k := range kinds {
		all = append(all, schema(k.schema))
	}
	for _, s := range peoplesSchemas {
		all = append(all, Spec{Schema: json.RawMessage(s)})
	}
	for _, s := range []string{`(?s:.*)`, `[^x]*`, `\S+`, `(a|é|日)*`, `[^"]{1,3}`, `.{0,17}z`, `(.{4})*`, `([a-z]{3}[0-9])*`} {
		all = append(all, Spec{Regex: s}, Spec{Schema: json.RawMessage(`{"pattern":` + mustJSON(s) + `,"type":"string"}`)})
	}
	for n, spec := range all {
		g, err := Compile(spec, v)
		if err != nil {
			t.Fatal(n, err)
		}
		for range 2 {
			m, err := g.Start()
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for range 12 {
				mask, err := m.Mask()
				if err != nil {
					t.Fatal(err)
				}
				var may []int32
				for id, b := range bytes {
					to, err := g.run(m.state, b)
					if err != nil {
						t.Fatal(err)
					}
					if got, want := Admits(mask, int32(id)), to != dead; got != want {
						t.Fatalf("%d: after %q the mask has %q: %v, and the matcher takes it: %v", n, said, b, got, want)
					}
					if to != dead {
						may = append(may, int32(id))
					}
				}
				if len(may) == 0 {
					break
				}
				id := may[rng.IntN(len(may))]
				if err := m.Accept(id); err != nil {
					t.Fatal(err)
				}
				said += bytes[id]
			}
		}
	}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
