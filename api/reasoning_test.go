package api

import (
	"math/rand/v2"
	"testing"
)

// thinker is a model whose tokens are bytes, and whose template knows thoughts.
type thinker struct{ Engine }

func (thinker) TokenText(id int32) string { return string(rune(id)) }

func (thinker) TokenBytes(id int32, _ bool) []byte { return []byte{byte(id)} }

func (thinker) Thinks() bool { return true }

func (e thinker) Decode(ids []int32) string {
	text := ""
	for _, id := range ids {
		text += e.TokenText(id)
	}
	return text
}

// plainModel knows no thoughts.
type plainModel struct{ thinker }

func (plainModel) Thinks() bool { return false }

// A thought is taken apart from what is said, however the text comes in pieces.
func TestSplitter(t *testing.T) {
	for _, c := range []struct {
		engine                      Engine
		prompt, text, thought, said string
		tokens                      int
	}{
		{thinker{}, "<a>", "<think>\nhm, so\n</think>\n\nYes.", "hm, so", "Yes.", 23},
		{thinker{}, "<a>", "\n <think>hm</think>Yes", "hm", "Yes", 19},
		{thinker{}, "<a><think>\n", "hm\n\nso\n</think>\n\nYes", "hm\n\nso", "Yes", 15},
		{thinker{}, "<a><think>\n\n</think>\n\n", "Yes", "", "Yes", 0},
		{thinker{}, "<a>", "Yes <think>no</think>", "", "Yes <think>no</think>", 0},
		{thinker{}, "<a>", " \n<thin air", "", " \n<thin air", 0},
		{thinker{}, "<a>", "<think>and on </thin and \non", "and on </thin and \non", "", 28},
		{thinker{}, "<a>", "<think>cut </thi", "cut </thi", "", 16},
		{thinker{}, "<a>", "<think></think>", "", "", 15},
		{thinker{}, "<a>", "", "", "", 0},
		{thinker{}, "<a>", "<th", "", "<th", 0},
		{plainModel{}, "<a><think>", "<think>x</think>y", "", "<think>x</think>y", 0},
	} {
		ids := func(text string) (out []int32) {
			for _, b := range []byte(text) {
				out = append(out, int32(b))
			}
			return out
		}
		for seed := range uint64(50) {
			r := rand.New(rand.NewPCG(seed, 1))
			s, thought, said := NewSplitter(c.engine, ids(c.prompt)), "", ""
			for rest := c.text; rest != ""; {
				n := 1 + r.IntN(len(rest))
				a, b := s.Push(rest[:n])
				thought, said, rest = thought+a, said+b, rest[n:]
			}
			a, b := s.Flush()
			if thought, said = thought+a, said+b; thought != c.thought || said != c.said {
				t.Fatalf("%q in pieces: %q and %q, want %q and %q", c.text, thought, said, c.thought, c.said)
			}
		}
		if got := ThoughtTokens(c.engine, ids(c.prompt), ids(c.text)); got != c.tokens {
			t.Errorf("%q: %d tokens of thought, want %d", c.text, got, c.tokens)
		}
	}
}

// FuzzSplitter: however an answer is cut, its parts are the same, and nothing of it is lost but
// marks and line ends beside them.
func FuzzSplitter(f *testing.F) {
	for _, s := range []string{"<think>\nhm\n</think>\n\nYes", " <think>a</think", "<thi", "\n\n</think>x", "<think><think></think></think>"} {
		f.Add(s, uint8(3), false)
		f.Add(s, uint8(1), true)
	}
	f.Fuzz(func(t *testing.T, text string, step uint8, opened bool) {
		begin := Splitter{}
		if opened {
			begin = Splitter{at: thinking, bare: true, thought: true}
		}
		split := func(n int) (thought, said string) {
			s := begin
			for rest := text; rest != ""; {
				k := min(n, len(rest))
				a, b := s.Push(rest[:k])
				thought, said, rest = thought+a, said+b, rest[k:]
			}
			a, b := s.Flush()
			return thought + a, said + b
		}
		thought, said := split(max(1, len(text)))
		if a, b := split(1 + int(step)); a != thought || b != said {
			t.Errorf("%q: %q and %q whole, %q and %q by %d", text, thought, said, a, b, 1+step)
		}
		if len(thought)+len(said) > len(text) {
			t.Errorf("%q became %q and %q", text, thought, said)
		}
	})
}
