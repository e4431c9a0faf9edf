package grammar

import (
	"fmt"
	"math/bits"
	"sync"
)

// Grammar is what answers may be, for one vocabulary. Safe for concurrent use.
type Grammar struct {
	vocab *Vocabulary

	mu     sync.Mutex // guards all below
	tables *tables
	at     []*state // scratch of a walk
}

// local is what a frame says of the vocabulary whatever is under it.
type local struct {
	mask   []uint64 // tokens that it takes whole
	leaves []int32  // nodes of the tree at which its rule may have ended
	once   groups   // any character of these ends its rule: little is known without its stack
}

func newGrammar(p *program, v *Vocabulary) *Grammar {
	deep := v.tree.deep
	if v.opening != nil {
		deep = max(deep, v.opening.deep)
	}
	return &Grammar{vocab: v, tables: newTables(p), at: make([]*state, deep+1)}
}

// size is how many instructions a grammar has.
func (g *Grammar) size() int { return len(g.tables.p.insts) }

// Matcher is how far an answer is. Not for concurrent use; matchers of one grammar may be used
// beside each other.
type Matcher struct {
	g          *Grammar
	state      *state
	generation int
	begun      bool
}

// Start begins an answer.
func (g *Grammar) Start() (*Matcher, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begin()
	s, err := g.tables.first()
	if err != nil {
		return nil, err
	}
	return &Matcher{g: g, state: s, generation: g.tables.generation}, nil
}

// begin readies the tables for one call.
func (g *Grammar) begin() {
	g.tables.trim()
	g.tables.work = maxWork
}

// settle makes the state one of the present tables.
func (m *Matcher) settle() error {
	m.g.begin()
	if m.generation == m.g.tables.generation {
		return nil
	}
	s, err := m.g.tables.adopt(m.state)
	if err == nil {
		m.state, m.generation = s, m.g.tables.generation
	}
	return err
}

// Mask are the ids that may come next, a bit each: those of tokens, and where the answer may end
// those that end it. The caller must not change it. It is kept for all answers that are at this
// place.
func (m *Matcher) Mask() ([]uint64, error) {
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := m.settle(); err != nil {
		return nil, err
	}
	if !m.begun && g.vocab.first != nil {
		return g.firstMask(m.state)
	}
	if m.state.mask != nil {
		return m.state.mask, nil
	}
	mask := make([]uint64, g.vocab.words())
	for _, it := range m.state.items {
		l, err := g.local(it.frame)
		if err != nil {
			return nil, err
		}
		if l.once == 0 && len(l.leaves) == 0 && len(m.state.items) == 1 && !m.state.ends {
			m.state.mask = l.mask
			return l.mask, nil
		}
		if l.once != 0 {
			if err := g.fill(it, mask); err != nil {
				return nil, err
			}
			continue
		}
		for i, w := range l.mask {
			mask[i] |= w
		}
		if len(l.leaves) == 0 || it.stack.under == nil { // nothing comes behind an answer
			continue
		}
		back, err := g.tables.back(it.stack)
		if err != nil {
			return nil, err
		}
		for _, node := range l.leaves {
			n := &g.vocab.tree.nodes[node]
			if err := g.tables.walk(&g.vocab.tree, node+1, n.skip, back, n.depth, g.at, mask, nil); err != nil {
				return nil, err
			}
		}
	}
	g.addEnds(m.state, mask)
	m.state.mask = mask
	g.tables.masks += 8 * len(mask)
	return mask, nil
}

// fill looks at the vocabulary from one item of a state.
func (g *Grammar) fill(it item, mask []uint64) error {
	t, tree := g.tables, &g.vocab.tree
	s, err := t.above(it.frame, it.stack)
	if err != nil {
		return err
	}
	return t.look(tree, s, g.at, mask, nil)
}

func (g *Grammar) addEnds(s *state, mask []uint64) {
	if s.ends {
		for _, id := range g.vocab.ends {
			mask[id>>6] |= 1 << (id & 63)
		}
	}
}

// firstMask is that of the first token of a text. It is asked for once in an answer and not kept.
func (g *Grammar) firstMask(s *state) ([]uint64, error) {
	mask := make([]uint64, g.vocab.words())
	if err := g.tables.look(g.vocab.opening, s, g.at, mask, nil); err != nil {
		return nil, err
	}
	g.addEnds(s, mask)
	return mask, nil
}

// run is where bytes lead.
func (g *Grammar) run(s *state, b string) (_ *state, err error) {
	for i := 0; i < len(b) && s != dead; i++ {
		if s, err = g.tables.step(s, b[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// local looks at the vocabulary from a frame whose caller is not known.
func (g *Grammar) local(f *frame) (*local, error) {
	if f.local != nil {
		return f.local, nil
	}
	t, tree := g.tables, &g.vocab.tree
	l := &local{mask: make([]uint64, g.vocab.words())}
	s, err := t.above(f, t.unknown)
	if err != nil {
		return nil, err
	}
	a, err := t.alikeOf(s)
	if err != nil {
		return nil, err
	}
	if plain&^a.groups == 0 && a.to.left && len(a.to.items) == 0 {
		l = &local{once: a.groups}
	} else if err := t.look(tree, s, g.at, l.mask, func(node int32) { l.leaves = append(l.leaves, node) }); err != nil {
		return nil, err
	}
	f.local = l
	t.masks += 8*len(l.mask) + 4*len(l.leaves)
	return l, nil
}

// Accept takes the next id of the answer. It is an error where Mask does not have it.
func (m *Matcher) Accept(id int32) error {
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := m.settle(); err != nil {
		return err
	}
	bytes := g.vocab.bytes
	if !m.begun && g.vocab.first != nil {
		bytes = g.vocab.first
	}
	if id < 0 || int(id) >= len(bytes) || bytes[id] == "" {
		return fmt.Errorf("the id %d may not come next", id)
	}
	to, err := g.run(m.state, bytes[id])
	if err != nil {
		return err
	}
	if to == dead {
		return fmt.Errorf("the id %d may not come next", id)
	}
	m.state, m.begun = to, true
	return nil
}

// Take takes a piece of text, of whatever tokens; false where it leads nowhere, and then nothing may
// be asked of the matcher any more.
func (m *Matcher) Take(text string) (bool, error) {
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := m.settle(); err != nil {
		return false, err
	}
	to, err := g.run(m.state, text)
	m.state, m.begun = to, true
	return to != dead, err
}

// Clone is one that goes on from here on its own.
func (m *Matcher) Clone() *Matcher {
	c := *m
	return &c
}

// maxForced is how much of a text without a choice is told at a time.
const maxForced = 4096

// Forced is the text that has to come next, whatever the answer is to be: "" where there is a
// choice, or where it may end. last says that nothing may come behind it.
func (m *Matcher) Forced() (text string, last bool, err error) {
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := m.settle(); err != nil {
		return "", false, err
	}
	var out []byte
	s := m.state
	for !s.ends && len(out) < maxForced {
		next := g.tables.bytesOf(s)
		if next.size() != 1 {
			break
		}
		b := next.first()
		to, err := g.tables.step(s, b)
		if err != nil {
			return "", false, err
		}
		out, s = append(out, b), to
	}
	return string(out), s.ends && len(s.items) == 0, nil
}

// Ended tells whether the answer may end here, and whether it has to.
func (m *Matcher) Ended() (may, must bool) {
	return m.state.ends, len(m.state.items) == 0
}

// Admits tells whether an id is in a mask.
func Admits(mask []uint64, id int32) bool {
	return id >= 0 && int(id>>6) < len(mask) && mask[id>>6]>>(id&63)&1 != 0
}

// Count is how many ids a mask has.
func Count(mask []uint64) (n int) {
	for _, w := range mask {
		n += bits.OnesCount64(w)
	}
	return n
}
