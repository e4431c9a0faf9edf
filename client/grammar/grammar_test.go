package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// pieces are the tokens of a small vocabulary: bytes, words, and parts of characters.
var pieces = func() []string {
	var out []string
	for b := range 256 {
		out = append(out, string([]byte{byte(b)}))
	}
	out = append(out, `{"`, `":`, `": `, `",`, `", "`, `"}`, `"]`, `"}]}`, `}}`, `}, {"`, "[[", "]]", "],[", "\n  ", "\n    ", "  ", "true", "false", "null", "tru", "e,", "lse",
		"name", `name"`, `"name":`, "age", `"age": `, "na", "me", "a", "ab", "abc", "b", "12", "123", "-1", "0.", ".5", "1e", "e+1", "00", "42,", "7}", `\n`, `\u00`, `\ud83d\ude00`, `\"`,
		"é", "é\"", "日本", "日\xe6", "\x9c\xac", "\xf0\x9f", "\x98\x80", "😀", "x\xf0\x9f\x98", "red", `"red"`, "green", "blue", `"a": 1`, "kind", `"kind": "`, "</think>", "</th", "ink>\n", "<tool_call>\n{", "2024", "-01-", "T1", "0:00", "@ex", ".com", "tion ", " the", "the ", "o")
	return out
}()

const endID = 1000 // of the small vocabulary, behind its tokens

func vocabulary() *Vocabulary {
	return NewVocabulary(endID+1, func(id int32, _ bool) []byte {
		if int(id) < len(pieces) {
			return []byte(pieces[id])
		}
		return nil
	}, []int32{endID})
}

func schema(s string) Spec { return Spec{Schema: json.RawMessage(s)} }

// specs have all that grammars are made of.
var specs = []Spec{
	{Object: true},
	schema(`true`),
	schema(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"]}`),
	schema(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"a":{"type":"boolean"}}}`),
	schema(`{"type":"object","properties":{"name":{"type":"string"},"na":{"const":1},"a\"é":{}},"required":["na"],"additionalProperties":{"type":"number"}}`),
	schema(`{"type":"array","items":{"enum":["red","green","blue",1,12,null,{"a":[1]}]},"minItems":1,"maxItems":3}`),
	schema(`{"$defs":{"tree":{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#/$defs/tree"}},"b":{"type":["string","null"]}},"required":["a"]}},"$ref":"#/$defs/tree"}`),
	schema(`{"type":"string","minLength":2,"maxLength":5}`),
	schema(`{"type":"string","pattern":"^[a-c]+é?(日|x)$"}`),
	schema(`{"type":"string","pattern":"ab"}`),
	schema(`{"type":"number","minimum":-3.25,"exclusiveMaximum":120.5}`),
	schema(`{"type":"integer","minimum":7,"maximum":1234}`),
	schema(`{"anyOf":[{"type":"object","properties":{"kind":{"const":"a"},"a":{"type":"integer"}},"required":["kind","a"]},{"type":"object","properties":{"kind":{"const":"ab"},"b":{"type":"string"}},"required":["kind","b"]}]}`),
	schema(`{"type":"string","format":"date-time"}`),
	schema(`{"type":"array","prefixItems":[{"type":"integer"},{"type":"boolean"}],"items":{"type":"null"},"minItems":1}`),
	{Regex: `(a|b)*abb|[^x]{2,4}日+`},
	{Regex: `(?i)red|\d{1,3}(\.\d+)?`},
	{All: []Spec{{Until: "</think>"}, {Text: "\n"}, schema(`{"type":"boolean"}`)}},
	{Repeat: &Spec{All: []Spec{{Text: "<tool_call>\n"}, {Object: true}, {Text: "\n"}}}, Min: 1, Max: 2},
	{Any: []Spec{{Text: "abc"}, {Text: "abcabd"}, {Repeat: &Spec{Text: "ab"}, Max: -1}}},
}

// Over random texts, the mask has exactly the tokens that a byte-by-byte matcher takes; and so has
// the matcher of what may end and of what must come.
func TestMaskIsWhatASlowMatcherTakes(t *testing.T) {
	texts, tokens := 10_000, 24
	if testing.Short() {
		texts = 1000
	}
	v := vocabulary()
	rng := rand.New(rand.NewPCG(1, 2))
	left := texts
	for n := 0; left > 0; n++ {
		spec := specs[n%len(specs)]
		r := &rules{shared: map[string]int{}, list: []*expr{never}}
		parts := 0
		e, err := r.spec(spec, &parts)
		if err != nil {
			t.Fatal(err)
		}
		r.list[0] = e
		g, err := Compile(spec, v)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 { // answers of one grammar, which share its states
			slow := newSlow(r.list)
			m, err := g.Start()
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for step := 0; step < 25; step++ {
				left--
				mask, err := m.Mask()
				if err != nil {
					t.Fatal(err)
				}
				var may []int32
				for id := range pieces {
					if Admits(mask, int32(id)) {
						may = append(may, int32(id))
					}
				}
				check := func(id int32) {
					if got, want := Admits(mask, id), slow.run(pieces[id]).alive(); got != want {
						t.Fatalf("%d: after %q the mask has %q: %v, and the slow matcher takes it: %v", n%len(specs), said, pieces[id], got, want)
					}
				}
				for range tokens {
					check(int32(rng.IntN(len(pieces))))
				}
				for range min(len(may), tokens) {
					check(may[rng.IntN(len(may))])
				}
				if got, want := Admits(mask, endID), slow.ends(); got != want {
					t.Fatalf("after %q the mask has the end: %v, want %v", said, got, want)
				}
				forced, last, err := m.Forced()
				if err != nil {
					t.Fatal(err)
				}
				for i := range len(forced) {
					for b := range 256 {
						if slow.run(forced[:i]).after(byte(b)).alive() != (byte(b) == forced[i]) {
							t.Fatalf("after %q: %q is forced, and byte %q at %d", said, forced, byte(b), i)
						}
					}
				}
				if end := slow.run(forced); last != (end.ends() && !continues(end)) {
					t.Fatalf("after %q: %q is forced, and the last: %v", said, forced, last)
				}
				if len(may) == 0 {
					break
				}
				id := may[rng.IntN(len(may))]
				if rng.IntN(3) > 0 { // long tokens cut across more
					for range 4 {
						if other := may[rng.IntN(len(may))]; len(pieces[other]) > len(pieces[id]) {
							id = other
						}
					}
				}
				if err := m.Accept(id); err != nil {
					t.Fatal(err)
				}
				said += pieces[id]
				slow = slow.run(pieces[id])
			}
		}
	}
}

// continues tells whether a byte may follow.
func continues(l *lefts) bool {
	for b := range 256 {
		if l.after(byte(b)).alive() {
			return true
		}
	}
	return false
}

// admits tells whether a grammar takes a whole text, byte by byte.
func admits(t testing.TB, g *Grammar, text string) bool {
	t.Helper()
	m, err := g.Start()
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) {
		if m.Accept(int32(text[i])) != nil {
			return false
		}
	}
	may, _ := m.Ended()
	return may
}

func TestSchemas(t *testing.T) {
	v := vocabulary()
	for _, c := range []struct {
		schema   string
		yes, not []string
	}{
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["b"]}`,
			[]string{`{"a":1,"b":""}`, `{"b": "x\n"}`[:7] + `\n"}`, "{\n  \"a\": -12,\n  \"b\": \"é\"\n}", `{ "b":"\ud83d\ude00" }`},
			[]string{`{"a":1}`, `{"b":"","a":1}`, `{"b":"","c":1}`, `{"a":01,"b":""}`, `{"a":1.5,"b":""}`, `{"b":"` + "\n" + `"}`, `{"b":"\ud83d"}`, `{"a":1,,"b":""}`, `{"b":""} `}},
		{`{"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":{"type":"boolean"}}`,
			[]string{`{}`, `{"a":null}`, `{"b":true}`, `{"a":null,"ab":false,"":true}`, `{"\"":true}`}, []string{`{"a":true}`, `{"b":true,"a":false}`, `{"\u0061":true}`}},
		{`{"type":"object"}`, []string{`{}`, `{"a":[{"b":1e5}]}`}, []string{`[]`, `{"a":}`, `{a:1}`}},
		{`{"type":"object","properties":{}}`, []string{`{}`}, []string{`{"a":1}`}},
		{`{"enum":["a",1,{"x":"é\n"}],"type":["string","object"]}`, []string{`"a"`, `{"x":"é\n"}`}, []string{`1`, `"b"`}},
		{`{"minimum":0,"maximum":100,"type":"integer"}`, []string{"0", "7", "99", "100"}, []string{"-1", "101", "00", "1000", "5.0"}},
		{`{"type":"integer","exclusiveMinimum":-120,"exclusiveMaximum":-7}`, []string{"-119", "-8", "-20", "-99"}, []string{"-7", "-120", "-0", "8", "-1", "-200"}},
		{`{"type":"number","minimum":0,"maximum":1}`, []string{"0", "1", "0.5", "0.0", "1.0", "1.000"}, []string{"1.01", "-0.1", "2", "1.1"}},
		{`{"type":"number","exclusiveMinimum":0.25,"maximum":0.75}`, []string{"0.26", "0.2501", "0.3", "0.75", "0.7500", "0.7"}, []string{"0.25", "0.250", "0.2", "0.751", "0.8", "0", "1"}},
		{`{"type":"number","multipleOf":0.01,"minimum":1}`, []string{"1", "1.25", "12.5"}, []string{"0.99", "1.255"}},
		{`{"type":"string","maxLength":3}`, []string{`""`, `"abc"`, `"é日😀"`, `"\u00e9\ud83d\ude00\n"`}, []string{`"abcd"`}},
		{`{"type":"string","pattern":"^\\d{2,3}$"}`, []string{`"12"`, `"123"`}, []string{`"1"`, `"1234"`, `"1a"`}},
		{`{"type":"string","pattern":"b"}`, []string{`"b"`, `"abc"`, `"\n\\b"`}, []string{`"ac"`, `""`}},
		{`{"type":"string","pattern":"^a|b$"}`, []string{`"ax"`, `"xb"`, `"b"`}, []string{`"xa"`, `"bx"`}},
		{`{"type":"string","pattern":"^\\S+$"}`, []string{`"ax"`}, []string{`"x b"`, `"\t"`, "\"\u00a0\""}},
		{`{"type":"string","format":"date"}`, []string{`"2024-02-28"`}, []string{`"2024-02-30"`, `"2024-13-01"`}},
		{`{"type":"string","format":"email"}`, []string{`"a.b@example.com"`}, []string{`"a"`}},
		{`{"type":"string","format":"int32"}`, []string{`"a"`}, nil},
		{`{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3}`, []string{`[1,2]`, `[1, 2, 3]`, "[\n1,\n2\n]"}, []string{`[1]`, `[1,2,3,4]`, `[]`}},
		{`{"type":"array","prefixItems":[{"type":"integer"},{"const":"a"}],"items":false}`, []string{`[]`, `[1]`, `[1,"a"]`}, []string{`["a"]`, `[1,"a",2]`}},
		{`{"type":"array","maxItems":0}`, []string{`[]`}, []string{`[1]`}},
		{`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"maximum":5},"b":{"type":"null"}}}]}`, []string{`{"a":5}`, `{"a":1,"b":null}`}, []string{`{"a":6}`, `{"b":null}`}},
		{`{"$ref":"#/$defs/a~1b","minimum":3,"$defs":{"a/b":{"type":"integer","maximum":5}}}`, []string{"3", "5"}, []string{"2", "6"}},
		{`{"oneOf":[{"type":"string"},{"type":"integer"}]}`, []string{`""`, "1"}, []string{"null"}},
		{`{"oneOf":[{"properties":{"t":{"const":"a"}},"required":["t"],"type":"object"},{"properties":{"t":{"const":"b"},"n":{"type":"null"}},"required":["t"],"type":"object"}]}`, []string{`{"t":"a"}`, `{"t":"b","n":null}`}, []string{`{"t":"a","n":null}`}},
		{`{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`, []string{`{"a":""}`, `{"b":1}`, `{"a":"","b":[]}`}, []string{`{}`}},
		{`{"type":["integer","number"]}`, []string{"1", "1.5"}, []string{`""`}},
		{`{"const":null}`, []string{"null"}, []string{"0"}},
		{`{"properties":{"a":{}},"required":["a","z"]}`, []string{`{"a":1,"z":2}`}, []string{`{"a":1}`}},
	} {
		g, err := Compile(schema(c.schema), v)
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, s := range c.yes {
			if !admits(t, g, s) {
				t.Errorf("%s: %s is not admitted", c.schema, s)
			}
		}
		for _, s := range c.not {
			if admits(t, g, s) {
				t.Errorf("%s: %s is admitted", c.schema, s)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	v := vocabulary()
	for _, c := range []struct{ schema, keyword, problem string }{
		{`{"not":{}}`, "not", "not supported"},
		{`{"type":"object","properties":{"a":{"if":{}}}}`, "if", "not supported"},
		{`{"patternProperties":{"a":{}}}`, "patternProperties", "not supported"},
		{`{"type":"array","uniqueItems":true}`, "uniqueItems", "not supported"},
		{`{"multipleOf":3}`, "multipleOf", "only 1"},
		{`{"type":"string","pattern":"(?=a)"}`, "pattern", "cannot be used"},
		{`{"type":"string","pattern":"a^b"}`, "pattern", "middle"},
		{`{"type":"string","pattern":"\\bb"}`, "pattern", `\b`},
		{`{"type":"string","pattern":"a","maxLength":3}`, "pattern", "maxLength"},
		{`{"$ref":"#"}`, "schema", "no value"},
		{`{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, "$ref", "itself"},
		{`{"$ref":"http://example.com/a"}`, "$ref", "does not name a part"},
		{`{"$ref":"#/$defs/a"}`, "$ref", "no"},
		{`{"oneOf":[{"type":"integer"},{"type":"number"}]}`, "oneOf", "anyOf"},
		{`{"type":"whole"}`, "type", "whole"},
		{`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`, "schema", "no value"},
		{`false`, "schema", "no value"},
		{`{"type":"string","minLength":200000}`, "maxLength", "at most"},
		{`{"type":"string","minLength":-1}`, "minLength", "whole number"},
		{`[]`, "schema", "neither"},
		{`{"type":"object","minProperties":1}`, "minProperties", "required"},
		{`{"enum":[1],"minimum":0}`, "minimum", "beside enum"},
		{`{"minimum":1e999999}`, "minimum", "digits"},
		{`{"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"string","maxLength":60000},"maxItems":60000},"minItems":60000},"minItems":60000}`, "schema", "instructions"},
	} {
		_, err := Compile(schema(c.schema), v)
		var r *Refusal
		if !errors.As(err, &r) || r.Keyword != c.keyword || !strings.Contains(r.Problem, c.problem) {
			t.Errorf("%s: %v, want one of %q with %q", c.schema, err, c.keyword, c.problem)
		}
	}
	for _, re := range []string{"(", `\1`, "(a{1000}){1000}"} {
		if _, err := Compile(Spec{Regex: re}, v); err == nil {
			t.Errorf("the expression %q is taken", re)
		}
	}
}

// What a hostile schema or expression takes has an end, in time and memory.
func TestHostile(t *testing.T) {
	v := vocabulary()
	var enum []string
	for i := range 9000 {
		enum = append(enum, fmt.Sprintf("%q", strings.Repeat("a", i%7)+fmt.Sprint(i)))
	}
	for _, spec := range []Spec{
		{Regex: "(a|b)*a(a|b){18}"},
		{Regex: "(a*)*(a*)*(a|aa|aaa)*b"},
		{Regex: "((a{0,200}){0,200})"},
		{Regex: `(\p{L}|\p{N})*`},
		schema(`{"enum":[` + strings.Join(enum, ",") + `]}`),
		schema(`{"$defs":{"a":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/a"}},{"type":"array","items":{"$ref":"#/$defs/b"}}]},"b":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/b"}},{"type":"array","items":{"$ref":"#/$defs/a"}}]}},"$ref":"#/$defs/a"}`),
		schema(`{"type":"string","maxLength":20000}`),
	} {
		g, err := Compile(spec, v)
		if err != nil {
			continue // refused is well
		}
		m, err := g.Start()
		if err != nil {
			t.Fatal(err)
		}
		for step := range 200 {
			mask, err := m.Mask()
			if err != nil {
				if !errors.Is(err, ErrTooCostly) {
					t.Fatal(err)
				}
				break
			}
			var may []int32
			for id := range pieces {
				if Admits(mask, int32(id)) {
					may = append(may, int32(id))
				}
			}
			if len(may) == 0 {
				break
			}
			if err := m.Accept(may[step%len(may)]); err != nil && !errors.Is(err, ErrTooCostly) {
				t.Fatal(err)
			}
			if g.tables.bytes > maxGrowth+maxTables || g.tables.masks > 2*maxMasks {
				t.Fatalf("tables of %d bytes, masks of %d", g.tables.bytes, g.tables.masks)
			}
		}
	}
}

// A grammar whose tables were forgotten goes on as before.
func TestTablesAreForgotten(t *testing.T) {
	g, err := Compile(specs[6], vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Start()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []byte(`{"a":[{"a":[],"b":"x`) {
		before, err := m.Mask()
		if err != nil {
			t.Fatal(err)
		}
		g.tables.bytes = maxTables + 1
		after, err := m.Mask()
		if err != nil || !slices.Equal(before, after) {
			t.Fatalf("before %q: %v", b, err)
		}
		if err := m.Accept(int32(b)); err != nil {
			t.Fatal(err)
		}
	}
}

// A token that begins a text is looked at as it shows there.
func TestFirstToken(t *testing.T) {
	words := []string{" {", "{", "}", " }"}
	v := NewVocabulary(5, func(id int32, first bool) []byte {
		if id == 4 {
			return nil
		}
		w := words[id]
		if first {
			w = strings.TrimPrefix(w, " ")
		}
		return []byte(w)
	}, []int32{4})
	g, err := Compile(Spec{Text: "{ }"}, v)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := g.Start()
	for _, step := range []struct {
		mask uint64
		id   int32
	}{{0b11, 0}, {0b1000, 3}, {0b10000, 4}} {
		mask, err := m.Mask()
		if err != nil || mask[0] != step.mask {
			t.Fatalf("%b, %v: want %b", mask, err, step.mask)
		}
		m.Accept(step.id)
	}
}
