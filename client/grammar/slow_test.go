package grammar

import "strings"

// The slow matcher: what is left of an expression after a byte, worked out anew for each byte on
// the expressions themselves. It knows no program, no stack, no state and no tree.

// lefts are the alternatives that are left, each a list of expressions in a row. Equal ones are
// kept once.
type lefts struct {
	rules []*expr
	some  []bool
	lists map[string][]*expr
	ids   map[*expr]int
}

func newSlow(list []*expr) *lefts {
	l := &lefts{rules: list, ids: map[*expr]int{}, lists: map[string][]*expr{}}
	l.some = settle(len(list), func(known []bool, i int) bool { return list[i].productive(known) })
	l.put([]*expr{call(0)})
	return l
}

func (l *lefts) put(list []*expr) {
	var key strings.Builder
	for _, e := range list {
		if !e.productive(l.some) {
			return
		}
		if _, ok := l.ids[e]; !ok {
			l.ids[e] = len(l.ids)
		}
		key.WriteString(string(rune(e.op)) + e.text + "\x00" + string(rune(l.ids[e]+1)))
	}
	l.lists[key.String()] = list
}

// after is what is left after a byte.
func (l *lefts) after(b byte) *lefts {
	out := &lefts{rules: l.rules, some: l.some, ids: l.ids, lists: map[string][]*expr{}}
	for _, list := range l.lists {
		l.derive(list, b, out.put)
	}
	return out
}

func (l *lefts) derive(list []*expr, b byte, emit func([]*expr)) {
	if len(list) == 0 {
		return
	}
	e, rest := list[0], list[1:]
	before := func(kids ...*expr) []*expr { return append(kids, rest...) }
	switch e.op {
	case opSet:
		if e.set.has(b) {
			emit(rest)
		}
	case opText:
		if e.text == "" {
			l.derive(rest, b, emit)
		} else if e.text[0] == b {
			if len(e.text) == 1 {
				emit(rest)
			} else {
				emit(before(l.textOf(e.text[1:])))
			}
		}
	case opSeq:
		l.derive(append(append([]*expr{}, e.kids...), rest...), b, emit)
	case opAlt:
		for _, k := range e.kids {
			l.derive(before(k), b, emit)
		}
	case opCall:
		l.derive(before(l.rules[e.rule]), b, emit)
	case opRepeat:
		if e.min == 0 {
			l.derive(rest, b, emit)
		}
		if e.max != 0 {
			more := &expr{op: opRepeat, kids: e.kids, min: max(0, e.min-1), max: max(-1, e.max-1)}
			if e.max == 1 {
				more = nothing
			}
			l.derive(before(e.kids[0], l.repeatOf(e.kids[0], more)), b, func(list []*expr) { emit(list) })
		}
	case opUntil: // what came of it is before a mark that no text has
		came, mark := "", e.text
		if i := strings.IndexByte(mark, 0); i >= 0 {
			came, mark = mark[:i], mark[i+1:]
		}
		came += string([]byte{b})
		if strings.HasSuffix(came, mark) {
			emit(rest)
			return
		}
		came = came[max(0, len(came)-len(mark)):]
		u := &expr{op: opUntil, text: came + "\x00" + mark}
		l.ids[u] = 0
		emit(before(u))
	}
}

func (l *lefts) textOf(s string) *expr { e := text(s); l.ids[e] = 0; return e }

var repeats = map[[3]any]*expr{}

// repeatOf is one expression for equal repetitions.
func (l *lefts) repeatOf(kid, e *expr) *expr {
	key := [3]any{kid, e.min, e.max}
	if e == nothing {
		return e
	}
	if repeats[key] == nil {
		repeats[key] = e
	}
	return repeats[key]
}

// alive tells whether anything is left, be it nothing more.
func (l *lefts) alive() bool { return len(l.lists) > 0 }

// ends tells whether the text may end.
func (l *lefts) ends() bool {
	empty := settle(len(l.rules), func(known []bool, i int) bool { return l.rules[i].nullable(known) })
	for _, list := range l.lists {
		if seq(list...).nullable(empty) {
			return true
		}
	}
	return false
}

func (l *lefts) run(s string) *lefts {
	for i := 0; i < len(s) && l.alive(); i++ {
		l = l.after(s[i])
	}
	return l
}
