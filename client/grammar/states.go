package grammar

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
)

// ErrTooCostly says that to find out what may come next would take too much work: the schema or
// the expression is too ambiguous.
var ErrTooCostly = errors.New("what may come next takes too much work to find out: the schema or the pattern is too ambiguous")

const (
	maxStep   = 1 << 16  // positions that one byte may lead to
	maxTables = 4 << 20  // bytes of states; then they are forgotten and found again
	maxMasks  = 8 << 20  // bytes of masks, likewise
	maxGrowth = 32 << 20 // bytes of states, within one call
	maxWork   = 1 << 24  // positions looked at for one mask
)

// stack is where callers go on: at cont when a rule ends, and then under is theirs.
type stack struct {
	id    uint32
	cont  int32
	under *stack
	back  *state // where an answer is when the rule ends; nil if that was not looked at
}

// Two stacks have nothing under them: that of an answer, and that of positions which are looked at
// without knowing who called their rule.
const (
	bottomID  = 0
	unknownID = 1
)

// frame is a set of positions above one stack, all of which take a byte.
type frame struct {
	id    uint32
	insts []int32
	local *local // what is known of it for any stack; nil if that was not looked at
}

// item is a frame above a stack.
type item struct {
	frame *frame
	stack *stack
}

// state is where an answer is: a set of positions with their stacks.
type state struct {
	items []item
	ends  bool     // it may end here
	left  bool     // the rule may end here, of a caller that is not known
	next  []*state // by class
	like  []uint8  // by class: one that leads to the same
	mask  []uint64 // of the tokens that may come; nil if that was not looked at
	alike *alike   // what it takes alike; nil if that was not looked at
	met   int      // times in walks
}

// dead is the state that nothing leads out of.
var dead = &state{}

type stackKey struct {
	cont  int32
	under uint32
}

// tables are the states that were found so far.
type tables struct {
	p               *program
	bottom, unknown *stack
	stacks          map[stackKey]*stack
	frames          map[string]*frame
	states          map[string]*state
	begin           *state
	bytes, masks    int // that they take
	work            int // left for the present call
	generation      int

	// Scratch of one expansion.
	met  []meeting         // by instruction: where it was met last
	also map[position]bool // what else was met in this expansion
	now  uint32            // counts expansions
	todo []position
	open []group
	key  []byte
}

// position is one instruction above a stack.
type position struct {
	inst  int32
	stack *stack
}

// meeting is that of an instruction in some expansion.
type meeting struct {
	at    uint32
	stack *stack
}

type group struct {
	stack *stack
	insts []int32
}

func newTables(p *program) *tables {
	t := &tables{p: p, met: make([]meeting, len(p.insts)), also: map[position]bool{}}
	t.reset()
	return t
}

// reset forgets all states.
func (t *tables) reset() {
	t.generation++
	t.bottom, t.unknown = &stack{id: bottomID}, &stack{id: unknownID}
	t.stacks, t.frames, t.states = map[stackKey]*stack{}, map[string]*frame{}, map[string]*state{}
	t.begin, t.bytes, t.masks = nil, 0, 0
}

// trim forgets states and masks if they take much; whoever holds a state must adopt it then.
func (t *tables) trim() {
	if t.bytes > maxTables || t.masks > maxMasks {
		t.reset()
	}
}

// push is a stack with a place to go on.
func (t *tables) push(cont int32, under *stack) *stack {
	key := stackKey{cont, under.id}
	s, ok := t.stacks[key]
	if !ok {
		s = &stack{id: uint32(len(t.stacks)) + 2, cont: cont, under: under}
		t.stacks[key] = s
		t.bytes += 100
	}
	return s
}

// adopt is a state of an earlier generation as one of this.
func (t *tables) adopt(old *state) (*state, error) {
	if old.items == nil && !old.ends {
		return dead, nil
	}
	moved := map[*stack]*stack{}
	var move func(s *stack) *stack
	move = func(s *stack) *stack {
		if s.under == nil {
			return t.bottom
		}
		if moved[s] == nil {
			moved[s] = t.push(s.cont, move(s.under))
		}
		return moved[s]
	}
	t.todo = t.todo[:0]
	for _, it := range old.items {
		to := move(it.stack)
		for _, i := range it.frame.insts {
			t.todo = append(t.todo, position{i, to})
		}
	}
	return t.expand(old.ends)
}

// first is where an answer begins.
func (t *tables) first() (*state, error) {
	if t.begin != nil {
		return t.begin, nil
	}
	t.todo = append(t.todo[:0], position{t.p.starts[0], t.bottom})
	s, err := t.expand(false)
	if err == nil {
		t.begin = s
	}
	return s, err
}

// above is the state of a frame alone.
func (t *tables) above(f *frame, s *stack) (*state, error) {
	t.todo = t.todo[:0]
	for _, i := range f.insts {
		t.todo = append(t.todo, position{i, s})
	}
	return t.expand(false)
}

// back is where an answer is when the rule above a stack ends.
func (t *tables) back(s *stack) (*state, error) {
	if s.back != nil {
		return s.back, nil
	}
	t.todo = t.todo[:0]
	ends := s.under == nil
	if !ends {
		t.todo = append(t.todo, position{s.cont, s.under})
	}
	to, err := t.expand(ends)
	if err == nil {
		s.back = to
	}
	return to, err
}

// step is where a byte leads.
func (t *tables) step(s *state, b byte) (*state, error) {
	class := t.p.class[b]
	if s.next == nil {
		if s == dead {
			return dead, nil
		}
		s.next, s.like = make([]*state, len(t.p.bytes)), t.likes(s)
		t.bytes += 9 * len(s.next)
	}
	if to := s.next[class]; to != nil {
		return to, nil
	}
	like := class
	if s.like != nil {
		like = s.like[class]
	}
	if s.next[like] == nil {
		t.todo = t.todo[:0]
		for _, it := range s.items {
			for _, i := range it.frame.insts {
				if in := &t.p.insts[i]; t.p.of[in.set][class/64]>>(class%64)&1 != 0 {
					t.todo = append(t.todo, position{in.next, it.stack})
				}
			}
			t.work -= len(it.frame.insts)
		}
		to, err := t.expand(false)
		if err != nil {
			return nil, err
		}
		s.next[like] = to
	}
	s.next[class] = s.next[like]
	return s.next[class], nil
}

// likes are, by class, the first class that a state's positions do not tell from it; nil where
// there are too many positions to find out.
func (t *tables) likes(s *state) []uint8 {
	var takes [256]uint64 // by class: the positions that take it
	n := 0
	for _, it := range s.items {
		for _, i := range it.frame.insts {
			if n == 64 {
				return nil
			}
			for w, classes := range t.p.of[t.p.insts[i].set] {
				for ; classes != 0; classes &= classes - 1 {
					takes[64*w+bits.TrailingZeros64(classes)] |= 1 << n
				}
			}
			n++
		}
	}
	like := make([]uint8, len(t.p.bytes))
	var firsts []uint8
next:
	for c := range like {
		for _, f := range firsts {
			if takes[f] == takes[c] {
				like[c] = f
				continue next
			}
		}
		like[c] = uint8(c)
		firsts = append(firsts, uint8(c))
	}
	return like
}

// expand is the state of the positions in todo and of all that they lead to without a byte.
func (t *tables) expand(ends bool) (*state, error) {
	t.now++
	clear(t.also)
	t.open = t.open[:0]
	left := false
	for n := 0; len(t.todo) > 0; n++ {
		at := t.todo[len(t.todo)-1]
		t.todo = t.todo[:len(t.todo)-1]
		if t.again(at) {
			continue
		}
		if t.work--; n > maxStep || t.work < 0 || t.bytes > maxGrowth {
			return nil, ErrTooCostly
		}
		switch in := &t.p.insts[at.inst]; in.code {
		case codeSet:
			t.gather(at)
		case codeSplit:
			t.todo = append(t.todo, position{in.next, at.stack}, position{in.alt, at.stack})
		case codeCall:
			under := at.stack
			if !in.tail {
				under = t.push(in.next, at.stack)
			}
			t.todo = append(t.todo, position{t.p.starts[in.rule], under})
		case codeEnd:
			switch at.stack {
			case t.bottom:
				ends = true
			case t.unknown:
				left = true
			default:
				t.todo = append(t.todo, position{at.stack.cont, at.stack.under})
			}
		}
	}
	return t.intern(ends, left), nil
}

// again tells whether a position was met before in this expansion.
func (t *tables) again(at position) bool {
	m := &t.met[at.inst]
	switch {
	case m.at != t.now:
		*m = meeting{t.now, at.stack}
	case m.stack == at.stack || t.also[at]:
		return true
	default:
		t.also[at] = true
	}
	return false
}

// gather adds a position to those above its stack.
func (t *tables) gather(at position) {
	for i := range t.open {
		if t.open[i].stack == at.stack {
			t.open[i].insts = append(t.open[i].insts, at.inst)
			return
		}
	}
	if n := len(t.open); n < cap(t.open) { // with the room that it had
		t.open = t.open[:n+1]
		t.open[n].stack, t.open[n].insts = at.stack, append(t.open[n].insts[:0], at.inst)
		return
	}
	t.open = append(t.open, group{at.stack, []int32{at.inst}})
}

// intern is the one state of what was gathered.
func (t *tables) intern(ends, left bool) *state {
	if len(t.open) == 0 && !ends && !left {
		return dead
	}
	slices.SortFunc(t.open, func(a, b group) int { return int(a.stack.id) - int(b.stack.id) })
	var items []item
	t.key = append(t.key[:0], flag(ends)|flag(left)<<1)
	for i := range t.open {
		f := t.frameOf(t.open[i].insts)
		items = append(items, item{f, t.open[i].stack})
		t.key = binary.LittleEndian.AppendUint32(t.key, f.id)
		t.key = binary.LittleEndian.AppendUint32(t.key, t.open[i].stack.id)
	}
	s, ok := t.states[string(t.key)]
	if !ok {
		s = &state{items: items, ends: ends, left: left}
		t.states[string(t.key)] = s
		t.bytes += 150 + len(t.key) + 16*len(items)
	}
	return s
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// frameOf is the one frame of some positions, which it sorts.
func (t *tables) frameOf(insts []int32) *frame {
	slices.Sort(insts)
	buf := make([]byte, 0, 128)
	for _, i := range insts {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(i))
	}
	f, ok := t.frames[string(buf)]
	if !ok {
		f = &frame{id: uint32(len(t.frames)), insts: slices.Clone(insts)}
		t.frames[string(buf)] = f
		t.bytes += 150 + 2*len(buf)
	}
	return f
}

// bytesOf are the bytes that may come next.
func (t *tables) bytesOf(s *state) (out byteSet) {
	for _, it := range s.items {
		for _, i := range it.frame.insts {
			out.join(&t.p.sets[t.p.insts[i].set])
		}
	}
	return out
}
