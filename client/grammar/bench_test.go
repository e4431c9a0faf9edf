package grammar

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// words are a vocabulary of so many tokens as large models have them: bytes, words with and
// without a space, ends of words, numbers, white space, and what code and JSON are made of.
func words(n int) []string {
	rng := rand.New(rand.NewPCG(3, 4))
	seen := map[string]bool{}
	var out []string
	add := func(s string) {
		if len(out) < n && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	for b := range 256 {
		add(string([]byte{byte(b)}))
	}
	for _, s := range pieces {
		add(s)
	}
	marks := []string{`"`, `":`, `",`, `."`, `("`, `")`, `{`, `}`, `[`, `],`, `:`, `,`, `\n`, `\"`, `//`, `="`, "\n", "\n\n", "\t", ";"}
	for _, a := range marks {
		for _, b := range marks {
			add(a + b)
		}
	}
	for i := 1; i < 40; i++ {
		add(strings.Repeat(" ", i))
		add("\n" + strings.Repeat(" ", i))
	}
	for i := range 1000 {
		add(fmt.Sprint(i))
	}
	syllables := []string{"an", "er", "in", "tion", "al", "re", "ing", "st", "con", "de", "ma", "lo", "qu", "ve", "é", "ß", "日", "本", "и", "ст", "ا", "ل"}
	for len(out) < n {
		var s strings.Builder
		if rng.IntN(2) == 0 {
			s.WriteByte(' ')
		}
		for range 1 + rng.IntN(4) {
			s.WriteString(syllables[rng.IntN(len(syllables))])
			s.WriteByte("abcdefghijklmnopqrstuvwxyz"[rng.IntN(26)])
		}
		if rng.IntN(30) == 0 {
			s.WriteString(marks[rng.IntN(len(marks))])
		}
		add(s.String())
	}
	return out
}

const benchSchema = `{"type":"object","properties":{"name":{"type":"string"},"born":{"type":"string","format":"date"},"height":{"type":"number","minimum":0,"maximum":300},"tags":{"type":"array","items":{"type":"string"}},"kind":{"enum":["person","company","city"]},"address":{"$ref":"#/$defs/address"},"notes":{"type":"object"}},"required":["name","born","height","tags","kind","address","notes"],"$defs":{"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"},"zip":{"type":"string","pattern":"^[0-9]{5}$"}},"required":["street","city","zip"]}}}`

const benchAnswer = `{"name": "Maria \"Mia\" Constantin", "born": "1987-04-12", "height": 172.5, "tags": ["reading", "mountains and the sea", "日本"], "kind": "person", "address": {"street": "Lange Straße 12", "city": "Dessau", "zip": "06844"}, "notes": {"since": [1, 2, {"a": null}], "text": "a longer text, with commas: and colons, that goes on for a while"}}`

// cut takes the longest token at each place.
func cut(bytes []string, text string) (ids []int32) {
	byText := map[string]int32{}
	for id, s := range bytes {
		byText[s] = int32(id)
	}
	for text != "" {
		for n := min(len(text), 40); ; n-- {
			if id, ok := byText[text[:n]]; ok {
				ids, text = append(ids, id), text[n:]
				break
			}
		}
	}
	return ids
}

// BenchmarkMask is the mask of a token of an answer: of a schema that is new ("first", in which
// each kind of place is met for the first time), and of one that was answered before. us/token is
// the mean of an answer's places, us/worst that of the most costly one, each at its best of all rounds.
func BenchmarkMask(b *testing.B) {
	for _, size := range []int{49_152, 262_144} {
		bytes := words(size)
		v := NewVocabulary(size, func(id int32, _ bool) []byte { return []byte(bytes[id]) }, []int32{0})
		for _, k := range kinds {
			ids := cut(bytes, k.answer)
			compiled := func() *Grammar {
				g, err := Compile(schema(k.schema), v)
				if err != nil {
					b.Fatal(err)
				}
				return g
			}
			b.Run(fmt.Sprintf("%d/%s/first", size, k.name), func(b *testing.B) {
				took := newTimes(ids)
				for b.Loop() {
					took.answer(b, compiled())
				}
				took.report(b)
			})
			b.Run(fmt.Sprintf("%d/%s/again", size, k.name), func(b *testing.B) {
				took, g := newTimes(ids), compiled()
				newTimes(ids).answer(b, g)
				for b.Loop() {
					took.answer(b, g)
				}
				took.report(b)
			})
		}
	}
}

// times are those of the masks of an answer.
type times struct {
	ids   []int32
	least []time.Duration // by place
}

func newTimes(ids []int32) *times { return &times{ids: ids, least: make([]time.Duration, len(ids))} }

func (t *times) answer(b *testing.B, g *Grammar) {
	m, err := g.Start()
	if err != nil {
		b.Fatal(err)
	}
	for i, id := range t.ids {
		begin := time.Now()
		if _, err := m.Mask(); err != nil {
			b.Fatal(err)
		}
		took := time.Since(begin)
		if t.least[i] == 0 || took < t.least[i] {
			t.least[i] = took
		}
		if err := m.Accept(id); err != nil {
			b.Fatal(err)
		}
	}
}

func (t *times) report(b *testing.B) {
	var total time.Duration
	for _, least := range t.least {
		total += least
	}
	b.ReportMetric(float64(total.Nanoseconds())/1000/float64(len(t.ids)), "us/token")
	b.ReportMetric(float64(slices.Max(t.least).Nanoseconds())/1000, "us/worst")
}
