package grammar

import (
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// Spec says what an answer must be. Exactly one of the fields is set, Min and Max beside Repeat
// alone; a Spec without any is the empty text.
type Spec struct {
	Text   string          `json:",omitempty"` // this text
	Schema json.RawMessage `json:",omitempty"` // a JSON value that is valid by this JSON Schema
	Object bool            `json:",omitempty"` // any JSON object
	Regex  string          `json:",omitempty"` // a text that this regular expression matches as a whole
	Until  string          `json:",omitempty"` // any text that ends with the first occurrence of this one
	All    []Spec          `json:",omitempty"` // these, one after another
	Any    []Spec          `json:",omitempty"` // one of these
	Repeat *Spec           `json:",omitempty"` // this, Min to Max times
	Min    int             `json:",omitempty"`
	Max    int             `json:",omitempty"` // -1 for any number
}

// maxSpec is how many parts a Spec may have, and how deep they may lie.
const maxSpec = 4096

// Compile makes a grammar of a Spec for a vocabulary. What of a schema cannot be kept is a
// *Refusal.
func Compile(spec Spec, v *Vocabulary) (*Grammar, error) {
	p, err := compile(spec)
	if err != nil {
		return nil, err
	}
	return newGrammar(p, v), nil
}

// compile makes the program of a Spec.
func compile(spec Spec) (*program, error) {
	r := &rules{shared: map[string]int{}}
	r.list = []*expr{never}
	parts := 0
	e, err := r.spec(spec, &parts)
	if err != nil {
		return nil, err
	}
	r.list[0] = e
	return assemble(r.list)
}

// spec is the expression of a Spec.
func (r *rules) spec(s Spec, parts *int) (*expr, error) {
	if *parts++; *parts > maxSpec {
		return nil, fmt.Errorf("the grammar has more than %d parts", maxSpec)
	}
	several := func(list []Spec) ([]*expr, error) {
		var out []*expr
		for _, kid := range list {
			e, err := r.spec(kid, parts)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		return out, nil
	}
	switch {
	case s.Schema != nil:
		return r.schema(s.Schema)
	case s.Object:
		return r.anyObject(), nil
	case s.Regex != "":
		return r.pattern(s.Regex, false, runeClass)
	case s.Until != "":
		return &expr{op: opUntil, text: s.Until}, nil
	case s.All != nil:
		kids, err := several(s.All)
		return seq(kids...), err
	case s.Any != nil:
		kids, err := several(s.Any)
		return alt(kids...), err
	case s.Repeat != nil:
		if s.Min < 0 || s.Min > maxRepeat || s.Max > maxRepeat {
			return nil, errors.New("the grammar repeats a part too often")
		}
		e, err := r.spec(*s.Repeat, parts)
		if err != nil {
			return nil, err
		}
		return repeat(e, s.Min, s.Max), nil
	}
	return text(s.Text), nil
}

// A Compiler keeps at most cached grammars, of maxKept instructions together. An instruction takes
// 40 bytes, and each grammar about maxTables and maxMasks besides: 232 MiB at the worst.
const (
	cached  = 16
	maxKept = 1 << 20
)

// Compiler makes grammars for one vocabulary and keeps those that were used last, with what was
// found of them. Safe for concurrent use.
type Compiler struct {
	vocab *Vocabulary

	mu    sync.Mutex // guards below
	last  list.List  // of *kept, the last used first
	known map[[32]byte]*list.Element
	size  int // instructions of all
}

type kept struct {
	key     [32]byte
	grammar *Grammar
}

// NewCompiler makes one.
func NewCompiler(v *Vocabulary) *Compiler {
	return &Compiler{vocab: v, known: map[[32]byte]*list.Element{}}
}

// Compile is Compile, or what it gave before.
func (c *Compiler) Compile(s Spec) (*Grammar, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("the grammar's schema is not valid JSON: %w", err)
	}
	key := sha256.Sum256(b)
	if g := c.use(key); g != nil {
		return g, nil
	}
	g, err := Compile(s, c.vocab)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.known[key]; ok { // somebody else made it meanwhile
		return e.Value.(*kept).grammar, nil
	}
	c.known[key] = c.last.PushFront(&kept{key, g})
	c.size += g.size()
	for c.last.Len() > cached || c.size > maxKept && c.last.Len() > 1 {
		oldest := c.last.Remove(c.last.Back()).(*kept)
		c.size -= oldest.grammar.size()
		delete(c.known, oldest.key)
	}
	return g, nil
}

func (c *Compiler) use(key [32]byte) *Grammar {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.known[key]
	if !ok {
		return nil
	}
	c.last.MoveToFront(e)
	return e.Value.(*kept).grammar
}
