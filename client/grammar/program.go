package grammar

import "fmt"

// code is what an instruction does.
type code uint8

const (
	codeSet   code = iota // takes a byte of a set, goes on at next
	codeSplit             // goes on at next and at alt
	codeCall              // goes on at the start of a rule, and behind it at next
	codeEnd               // goes on where the rule was called
)

// inst is an instruction of a program: a position that an answer may be at.
type inst struct {
	code      code
	tail      bool  // of a call: nothing follows it in its rule
	set       int32 // of a set: its index
	next, alt int32
	rule      int32
}

// maxProgram is how many instructions a grammar may have.
const maxProgram = 1 << 18

// program is the rules of a grammar as instructions.
type program struct {
	insts  []inst
	sets   []byteSet
	starts []int32 // of rules
	class  [256]uint8
	of     [][]uint64 // by set: the classes of its bytes
	bytes  []byteSet  // by class
	samples
}

// assembler writes a program.
type assembler struct {
	*program
	rules  []*expr
	some   []bool // by rule: it admits something
	setIDs map[byteSet]int32
	full   bool
}

// assemble makes a program of rules, of which the first is the whole. It refuses rules that admit
// nothing, that call themselves before a byte was taken, and those that are too large.
func assemble(list []*expr) (*program, error) {
	a := &assembler{program: &program{starts: make([]int32, len(list))}, rules: list, setIDs: map[byteSet]int32{}}
	a.some = settle(len(list), func(known []bool, i int) bool { return list[i].productive(known) })
	if !a.some[0] {
		return nil, &Refusal{"#", "schema", "no value is valid by it"}
	}
	empty := settle(len(list), func(known []bool, i int) bool { return list[i].nullable(known) })
	if err := a.loops(empty); err != nil {
		return nil, err
	}
	end := a.add(inst{code: codeEnd})
	for i, e := range list {
		if a.some[i] {
			a.starts[i] = a.emit(e, end)
		}
		if a.full {
			return nil, &Refusal{"#", "schema", fmt.Sprintf("its grammar has more than %d instructions: write it smaller, with shorter lengths", maxProgram)}
		}
	}
	for i := range a.insts {
		in := &a.insts[i]
		in.tail = in.code == codeCall && a.insts[in.next].code == codeEnd
	}
	a.classify()
	a.sample()
	return a.program, nil
}

// settle finds what holds of each rule, where that depends on what holds of others.
func settle(n int, holds func(known []bool, i int) bool) []bool {
	known := make([]bool, n)
	for changed := true; changed; {
		changed = false
		for i := n - 1; i >= 0; i-- {
			if !known[i] && holds(known, i) {
				known[i], changed = true, true
			}
		}
	}
	return known
}

// productive tells whether an expression admits something, given the rules that do.
func (e *expr) productive(rules []bool) bool {
	switch e.op {
	case opSet:
		return e.set != byteSet{}
	case opSeq:
		for _, k := range e.kids {
			if !k.productive(rules) {
				return false
			}
		}
	case opAlt:
		for _, k := range e.kids {
			if k.productive(rules) {
				return true
			}
		}
		return false
	case opRepeat:
		return e.min == 0 || e.kids[0].productive(rules)
	case opCall:
		return rules[e.rule]
	}
	return true
}

// nullable tells whether an expression admits the empty text, given the rules that do.
func (e *expr) nullable(rules []bool) bool {
	switch e.op {
	case opSet, opUntil:
		return false
	case opText:
		return e.text == ""
	case opAlt:
		for _, k := range e.kids {
			if k.nullable(rules) {
				return true
			}
		}
		return false
	case opRepeat:
		return e.min == 0 || e.kids[0].nullable(rules)
	case opCall:
		return rules[e.rule]
	}
	for _, k := range e.kids {
		if !k.nullable(rules) {
			return false
		}
	}
	return true
}

// begins visits the rules that an expression may call before it takes a byte, and tells whether
// it may go on without one.
func (e *expr) begins(empty []bool, visit func(rule int)) (through bool) {
	switch e.op {
	case opSeq:
		for _, k := range e.kids {
			if !k.begins(empty, visit) {
				return false
			}
		}
		return true
	case opAlt, opRepeat:
		for _, k := range e.kids {
			through = k.begins(empty, visit) || through
		}
		return through || e.op == opRepeat && e.min == 0
	case opCall:
		visit(e.rule)
	}
	return e.nullable(empty)
}

// loops refuses rules that may call themselves before they take a byte.
func (a *assembler) loops(empty []bool) error {
	const open, done = 1, 2
	state := make([]uint8, len(a.rules))
	var visit func(i int) bool
	visit = func(i int) (loop bool) {
		switch state[i] {
		case open:
			return true
		case done:
			return false
		}
		state[i] = open
		a.rules[i].begins(empty, func(rule int) { loop = loop || visit(rule) })
		state[i] = done
		return loop
	}
	for i := range a.rules {
		if visit(i) {
			return &Refusal{"#", "$ref", "a schema refers to itself with nothing between"}
		}
	}
	return nil
}

func (a *assembler) add(i inst) int32 {
	if len(a.insts) >= maxProgram {
		a.full = true
		return 0
	}
	a.insts = append(a.insts, i)
	return int32(len(a.insts) - 1)
}

func (a *assembler) addSet(s byteSet, next int32) int32 {
	id, ok := a.setIDs[s]
	if !ok {
		id = int32(len(a.sets))
		a.sets, a.setIDs[s] = append(a.sets, s), id
	}
	return a.add(inst{code: codeSet, set: id, next: next})
}

// emit writes an expression that goes on at next, and returns where it begins. All that it is made
// of admits something, or is left out.
func (a *assembler) emit(e *expr, next int32) int32 {
	if a.full {
		return 0
	}
	switch e.op {
	case opSet:
		return a.addSet(e.set, next)
	case opText:
		for i := len(e.text) - 1; i >= 0; i-- {
			var s byteSet
			s.add(e.text[i], e.text[i])
			next = a.addSet(s, next)
		}
		return next
	case opSeq:
		for i := len(e.kids) - 1; i >= 0; i-- {
			next = a.emit(e.kids[i], next)
		}
		return next
	case opAlt:
		at := int32(-1)
		for i := len(e.kids) - 1; i >= 0; i-- {
			if !e.kids[i].productive(a.some) {
				continue
			}
			kid := a.emit(e.kids[i], next)
			if at >= 0 {
				kid = a.add(inst{code: codeSplit, next: kid, alt: at})
			}
			at = kid
		}
		return at
	case opRepeat:
		return a.repeat(e, next)
	case opCall:
		return a.add(inst{code: codeCall, rule: int32(e.rule), next: next})
	}
	return a.until(e.text, next)
}

func (a *assembler) repeat(e *expr, next int32) int32 {
	kid := e.kids[0]
	if !kid.productive(a.some) { // then min is 0
		return next
	}
	if e.max < 0 {
		loop := a.add(inst{code: codeSplit, alt: next})
		a.insts[loop].next = a.emit(kid, loop)
		next = loop
	}
	end := next
	for i := e.min; i < e.max && !a.full; i++ {
		next = a.add(inst{code: codeSplit, next: a.emit(kid, next), alt: end})
	}
	for i := 0; i < e.min && !a.full; i++ {
		next = a.emit(kid, next)
	}
	return next
}

// until takes bytes up to the end of a mark. The place for each number of bytes of the mark that
// came last is known: where the next byte does not go on with it, the longest end of what came
// that begins the mark counts.
func (a *assembler) until(mark string, next int32) int32 {
	if mark == "" {
		return next
	}
	places := make([]int32, len(mark)+1)
	for i := range mark { // one instruction each, to be filled in
		places[i] = a.add(inst{code: codeSplit})
	}
	places[len(mark)] = next
	fail := make([]int, len(mark)+1)
	for i := 2; i <= len(mark); i++ {
		k := fail[i-1]
		for k > 0 && mark[k] != mark[i-1] {
			k = fail[k]
		}
		if mark[k] == mark[i-1] {
			k++
		}
		fail[i] = k
	}
	for i := range mark {
		to := map[int]*byteSet{}
		for b := range 256 {
			k := i
			for k > 0 && mark[k] != byte(b) {
				k = fail[k]
			}
			if mark[k] == byte(b) {
				k++
			}
			if to[k] == nil {
				to[k] = &byteSet{}
			}
			to[k].add(byte(b), byte(b))
		}
		at := int32(-1)
		for k := 0; k <= len(mark); k++ {
			if to[k] == nil {
				continue
			}
			kid := a.addSet(*to[k], places[k])
			if at >= 0 {
				kid = a.add(inst{code: codeSplit, next: kid, alt: at})
			}
			at = kid
		}
		if !a.full {
			a.insts[places[i]] = inst{code: codeSplit, next: at, alt: at}
		}
	}
	return places[0]
}

// classify groups bytes that no set tells apart.
func (a *assembler) classify() {
	classes := map[string]uint8{}
	key := make([]byte, (len(a.sets)+7)/8)
	for b := range 256 {
		clear(key)
		for i := range a.sets {
			if a.sets[i].has(byte(b)) {
				key[i/8] |= 1 << (i % 8)
			}
		}
		c, ok := classes[string(key)]
		if !ok {
			c = uint8(len(a.bytes))
			classes[string(key)] = c
			a.bytes = append(a.bytes, byteSet{})
		}
		a.class[b] = c
		a.bytes[c].add(byte(b), byte(b))
	}
	a.of = make([][]uint64, len(a.sets))
	for i := range a.sets {
		a.of[i] = make([]uint64, (len(a.bytes)+63)/64)
		for c := range a.bytes {
			if a.sets[i].has(a.bytes[c].first()) {
				a.of[i][c/64] |= 1 << (c % 64)
			}
		}
	}
}
