package tokenizer

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"whorl/internal/fixture"
	"whorl/model/tokenizer/jinja"
)

// golden is what the reference library said about one tokenizer.
type golden struct {
	Tokenizer json.RawMessage `json:"tokenizer"`

	Plain  [][]int32 `json:"plain"`  // special tokens in the text are text
	Parsed [][]int32 `json:"parsed"` // they are tokens, and begin and end are added

	Shown   []string `json:"shown"` // parsed, decoded
	Skipped []string `json:"skipped"`

	Sequences        [][]int32 `json:"sequences"` // ids that no text gives
	SequencesShown   []string  `json:"sequences_shown"`
	SequencesSkipped []string  `json:"sequences_skipped"`
}

var goldenNames = []string{"smollm2", "gpt2", "llama3", "qwen2", "llama2", "metaspace", "scored", "mixed", "falcon", "bloom"}

func readGolden[T any](t testing.TB, name string) T {
	t.Helper()
	return fixture.JSON[T](t, filepath.Join("testdata", name+".json.gz"))
}

func readTexts(t testing.TB) []string {
	t.Helper()
	texts := readGolden[[]string](t, "texts")
	if len(texts) < 300 {
		t.Fatalf("%d texts, want 300 or more", len(texts))
	}
	return texts
}

func loadGolden(t testing.TB, name string) (*Tokenizer, golden) {
	t.Helper()
	g := readGolden[golden](t, name)
	tok, err := LoadJSON(g.Tokenizer)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tok, g
}

// differences counts mismatches and shows the first few.
type differences struct {
	t     *testing.T
	count int
}

func (d *differences) add(format string, args ...any) {
	d.t.Helper()
	if d.count++; d.count <= 5 {
		d.t.Errorf(format, args...)
	}
}

func (d *differences) done(cases int) {
	d.t.Helper()
	if d.count > 0 {
		d.t.Errorf("%d of %d cases differ from the reference", d.count, cases)
	}
}

func encode(t testing.TB, tok *Tokenizer, text string, opts EncodeOptions) []int32 {
	t.Helper()
	ids, err := tok.Encode(text, opts)
	if err != nil {
		t.Fatalf("Encode(%q): %v", text, err)
	}
	return ids
}

func TestEncodeEqualsReference(t *testing.T) {
	texts := readTexts(t)
	for _, name := range goldenNames {
		t.Run(name, func(t *testing.T) {
			tok, g := loadGolden(t, name)
			d := differences{t: t}
			for i, text := range texts {
				if got := encode(t, tok, text, EncodeOptions{}); !slices.Equal(got, g.Plain[i]) {
					d.add("Encode(%q)\n got %v\nwant %v", text, got, g.Plain[i])
				}
				all := EncodeOptions{Special: true, ParseSpecial: true}
				if got := encode(t, tok, text, all); !slices.Equal(got, g.Parsed[i]) {
					d.add("Encode(%q) with special tokens\n got %v\nwant %v", text, got, g.Parsed[i])
				}
			}
			d.done(2 * len(texts))
		})
	}
}

func TestDecodeEqualsReference(t *testing.T) {
	for _, name := range goldenNames {
		t.Run(name, func(t *testing.T) {
			tok, g := loadGolden(t, name)
			d := differences{t: t}
			check := func(ids []int32, skip bool, want string) {
				if got := tok.Decode(ids, skip); got != want {
					d.add("Decode(%v, %v)\n got %q\nwant %q", ids, skip, got, want)
				}
				checkStream(t, tok, ids, skip, want)
			}
			for i, ids := range g.Parsed {
				check(ids, false, g.Shown[i])
				check(ids, true, g.Skipped[i])
			}
			for i, ids := range g.Sequences {
				check(ids, false, g.SequencesShown[i])
				check(ids, true, g.SequencesSkipped[i])
			}
			d.done(2 * (len(g.Parsed) + len(g.Sequences)))
		})
	}
}

// checkStream pushes the ids one by one.
func checkStream(t testing.TB, tok *Tokenizer, ids []int32, skip bool, want string) {
	t.Helper()
	var b strings.Builder
	s := tok.NewStream(skip)
	for i, id := range ids {
		part := s.Push(id)
		if !utf8.ValidString(part) {
			t.Fatalf("Push(%d), id %d of %v: %q is not UTF-8", id, i, ids, part)
		}
		b.WriteString(part)
		if !strings.HasPrefix(want, b.String()) {
			t.Fatalf("after id %d of %v the stream shows %q, the text is %q", i, ids, b.String(), want)
		}
	}
	b.WriteString(s.Flush())
	if b.String() != want {
		t.Fatalf("stream of %v\n got %q\nwant %q", ids, b.String(), want)
	}
	if rest := s.Flush(); rest != "" {
		t.Fatalf("a second Flush gave %q", rest)
	}
}

type chatGolden struct {
	Templates map[string]struct {
		Tokenizer string            `json:"tokenizer"`
		Tokens    map[string]string `json:"tokens"`
		Source    string            `json:"source"`
	} `json:"templates"`
	Cases []chatCase `json:"cases"`
}

type chatCase struct {
	Template   string                     `json:"template"`
	Messages   []goldenMessage            `json:"messages"`
	Generation bool                       `json:"generation"`
	Tools      json.RawMessage            `json:"tools"`
	Documents  json.RawMessage            `json:"documents"`
	Vars       map[string]json.RawMessage `json:"vars"`
	Text       *string                    `json:"text"` // nil: the template refuses
	IDs        []int32                    `json:"ids"`
}

// goldenMessage is a message as the reference library takes it.
type goldenMessage struct {
	Role       string          `json:"role"`
	Content    *string         `json:"content"`
	Reasoning  string          `json:"reasoning_content"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	Name       string          `json:"name"`
}

func (c *chatCase) messages() []Message {
	var out []Message
	for _, g := range c.Messages {
		m := Message{Role: g.Role, Reasoning: g.Reasoning, ToolCalls: g.ToolCalls, ToolCallID: g.ToolCallID, Name: g.Name, NoContent: g.Content == nil}
		if g.Content != nil {
			m.Content = *g.Content
		}
		out = append(out, m)
	}
	return out
}

// chatters makes the tokenizers of the templates of a golden.
func (g *chatGolden) chatters(t *testing.T) map[string]*Tokenizer {
	t.Helper()
	toks := map[string]*Tokenizer{}
	now := func() time.Time { return time.Date(2026, 3, 7, 9, 5, 0, 0, time.UTC) }
	for name, kind := range g.Templates {
		spec := readGolden[golden](t, kind.Tokenizer)
		tok, err := loadJSON(spec.Tokenizer, []Option{WithChatTemplate(kind.Source), WithNow(now)})
		if err != nil {
			t.Fatal(err)
		}
		for key, token := range kind.Tokens {
			id, ok := tok.TokenID(token)
			if !ok {
				t.Fatalf("%s: no token %q", name, token)
			}
			*map[string]*int32{"bos_token": &tok.bos, "eos_token": &tok.eos}[key] = id
		}
		if err := tok.finish(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		toks[name] = tok
	}
	return toks
}

// TestChatEqualsReference renders and encodes conversations, in tools.json.gz
// with tools, documents and variables.
func TestChatEqualsReference(t *testing.T) {
	for _, file := range []string{"chats", "tools"} {
		t.Run(file, func(t *testing.T) {
			g := readGolden[chatGolden](t, file)
			toks := g.chatters(t)
			d := differences{t: t}
			refused := 0
			for _, c := range g.Cases {
				tok, messages := toks[c.Template], c.messages()
				opts := []ChatOption{WithTools(c.Tools), WithDocuments(c.Documents), WithVars(c.Vars)}
				text, err := tok.Chat(messages, c.Generation, opts...)
				ids, idErr := tok.EncodeChat(messages, c.Generation, opts...)
				if c.Text == nil {
					refused++
					if !errors.Is(err, jinja.ErrRefused) || !errors.Is(idErr, jinja.ErrRefused) {
						d.add("%s, %v: got %q, %v and %v, want it refused", c.Template, messages, text, err, idErr)
					}
					continue
				}
				if err != nil || idErr != nil {
					d.add("%s, %v: %v, %v", c.Template, messages, err, idErr)
					continue
				}
				if text != *c.Text {
					d.add("%s, %v, %v\n got %q\nwant %q", c.Template, messages, c.Generation, text, *c.Text)
				}
				if !slices.Equal(ids, c.IDs) {
					d.add("%s, %v, %v: ids\n got %v\nwant %v", c.Template, messages, c.Generation, ids, c.IDs)
				}
			}
			d.done(len(g.Cases))
			if refused == 0 {
				t.Error("no case in which a template refuses")
			}
		})
	}
}
