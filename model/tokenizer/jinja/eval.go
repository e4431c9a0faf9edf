package jinja

import (
	"strings"
	"unicode/utf8"
)

func (c constant) eval(*run, *scope) Value { return c.value }

func (v variable) eval(r *run, s *scope) Value {
	r.step()
	return s.get(v.name)
}

func (q sequence) eval(r *run, s *scope) Value {
	items := make([]Value, len(q.items))
	for i, e := range q.items {
		items[i] = e.eval(r, s)
	}
	return r.list(q.kind, items)
}

func (m mapping) eval(r *run, s *scope) Value {
	d := NewDict()
	r.make(element * len(m.keys))
	for i, key := range m.keys {
		d.set(key.eval(r, s), m.values[i].eval(r, s))
	}
	return d
}

func (a attribute) eval(r *run, s *scope) Value {
	r.step()
	of := a.of.eval(r, s)
	if v, ok := member(of, a.name); ok {
		return v
	}
	return lacking(of, a.name)
}

// member is of.name: a method, or else the value of a key.
func member(of Value, name string) (Value, bool) {
	barSafe(of, "taking a part of")
	if u, ok := of.(*undefined); ok {
		fail("%s", u.message)
	}
	if v, ok := ownAttribute(of, name); ok {
		return v, true
	}
	if d, ok := of.(*Dict); ok {
		return d.get(name)
	}
	return nil, false
}

// ownAttribute is what of has by its kind.
func ownAttribute(of Value, name string) (Value, bool) {
	if strings.HasPrefix(name, "_") {
		if _, ok := of.(*Dict); ok && !strings.HasPrefix(name, "__") {
			return nil, false // may be a key
		}
		return missing("access to attribute '%s' of '%s' object is unsafe.", name, typeName(of)), true
	}
	switch of := of.(type) {
	case *namespace:
		return of.dict.get(name)
	case *loopState:
		return of.attribute(name)
	}
	return method(of, name)
}

func lacking(of Value, name string) Value {
	return missing("'%s' has no attribute '%s'", objectName(of), name)
}

func (x subscript) eval(r *run, s *scope) Value {
	r.step()
	of := x.of.eval(r, s)
	if cut, ok := x.index.(slice); ok {
		barSafe(of, "taking a part of")
		return cut.of(r, s, of)
	}
	return item(of, x.index.eval(r, s))
}

// item is of[index]: an element, or else the attribute of that name.
func item(of, index Value) Value {
	barSafe(of, "taking a part of")
	if u, ok := of.(*undefined); ok {
		fail("%s", u.message)
	}
	if v, ok := elementOf(of, index); ok {
		return v
	}
	name, ok := index.(string)
	if !ok {
		return missing("'%s' has no such element", objectName(of))
	}
	if _, isDict := of.(*Dict); !isDict || !strings.HasPrefix(name, "_") {
		if v, ok := ownAttribute(of, name); ok {
			return v
		}
	}
	return lacking(of, name)
}

func elementOf(of, index Value) (Value, bool) {
	if d, ok := of.(*Dict); ok {
		switch index.(type) {
		case *List, *Dict: // not hashable, or what no dict here has
			return nil, false
		}
		return d.get(index)
	}
	n, ok := wholeNumber(index)
	if !ok {
		return nil, false
	}
	switch of := of.(type) {
	case string:
		if ascii(of) {
			if n, ok = inRange(n, len(of)); ok {
				return of[n : n+1], true
			}
			return nil, false
		}
		runes := []rune(of)
		if n, ok = inRange(n, len(runes)); ok {
			return string(runes[n]), true
		}
	case *List:
		if of.kind == viewList || of.kind == generatorList {
			return nil, false
		}
		if n, ok = inRange(n, len(of.Items)); ok {
			return of.Items[n], true
		}
	}
	return nil, false
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// inRange makes an index of one that may count from the end.
func inRange(n int64, size int) (int64, bool) {
	if n < 0 {
		n += int64(size)
	}
	return n, n >= 0 && n < int64(size)
}

// wholeNumber is an int or a bool as a number.
func wholeNumber(v Value) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		return boolInt(v), true
	}
	return 0, false
}

func (slice) eval(*run, *scope) Value {
	fail("a slice among several subscripts is not supported")
	return nil
}

// of cuts a value as Python's slices do.
func (c slice) of(r *run, s *scope, of Value) Value {
	bound := func(e expression) (int64, bool) {
		if e == nil {
			return 0, false
		}
		v := e.eval(r, s)
		if v == nil {
			return 0, false
		}
		n, ok := wholeNumber(v)
		if !ok {
			fail("slice indices must be integers or None, not %s", typeName(v))
		}
		return n, true
	}
	start, hasStart := bound(c.start)
	stop, hasStop := bound(c.stop)
	step, hasStep := bound(c.step)
	if !hasStep {
		step = 1
	}
	if step == 0 {
		fail("slice step cannot be zero")
	}
	const far = 1 << 40 // beyond any size here, and safe to add to
	step = min(max(step, -far), far)
	switch of := of.(type) {
	case string:
		r.make(len(of))
		if step == 1 && ascii(of) {
			from, to := sliceBounds(start, stop, step, int64(len(of)), hasStart, hasStop)
			return of[from:max(from, to)]
		}
		return string(pick([]rune(of), start, stop, step, hasStart, hasStop))
	case *List:
		if of.kind != viewList && of.kind != generatorList {
			items := pick(of.Items, start, stop, step, hasStart, hasStop)
			kind := of.kind
			if kind == rangeList {
				kind = plainList
			}
			return r.list(kind, items)
		}
	}
	if u, ok := of.(*undefined); ok {
		fail("%s", u.message)
	}
	fail("'%s' object cannot be sliced", typeName(of))
	return nil
}

// pick copies the elements that a slice is of.
func pick[T any](all []T, start, stop, step int64, hasStart, hasStop bool) []T {
	var out []T
	from, to := sliceBounds(start, stop, step, int64(len(all)), hasStart, hasStop)
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		out = append(out, all[i])
	}
	return out
}

// sliceBounds is slice.indices of Python.
func sliceBounds(start, stop, step, size int64, hasStart, hasStop bool) (from, to int64) {
	low, high := int64(0), size
	if step < 0 {
		low, high = -1, size-1
	}
	clip := func(n int64) int64 {
		if n < 0 {
			n += size
		}
		return min(max(n, low), high)
	}
	from, to = low, high
	if step < 0 {
		from, to = high, low
	}
	if hasStart {
		from = clip(start)
	}
	if hasStop {
		to = clip(stop)
	}
	return from, to
}

// passed are the arguments that a function gets.
type passed struct {
	positional []Value
	names      []string
	named      []Value
}

func (a arguments) eval(r *run, s *scope) passed {
	var p passed
	for _, e := range a.positional {
		p.positional = append(p.positional, e.eval(r, s))
	}
	p.names = append(p.names, a.names...)
	for _, e := range a.named {
		p.named = append(p.named, e.eval(r, s))
	}
	if a.star != nil {
		p.positional = append(p.positional, r.items(a.star.eval(r, s))...)
	}
	if a.starStar != nil {
		d, ok := a.starStar.eval(r, s).(*Dict)
		if !ok {
			fail("the argument behind ** is no dict")
		}
		for i, key := range d.keys {
			name, ok := key.(string)
			if !ok {
				fail("keywords must be strings")
			}
			p.names, p.named = append(p.names, name), append(p.named, d.values[i])
		}
	}
	r.make(element * (len(p.positional) + len(p.named)))
	return p
}

func (c *call) eval(r *run, s *scope) Value {
	r.step()
	return r.callValue(c.of.eval(r, s), c.args.eval(r, s))
}

func (r *run) callValue(of Value, a passed) Value {
	switch of := of.(type) {
	case *function:
		return of.call(r, a)
	case *undefined:
		fail("%s", of.message)
	case *loopState:
		return of.recurse(r, a)
	}
	fail("'%s' object is not callable", typeName(of))
	return nil
}

func (f *filter) eval(r *run, s *scope) Value { return f.apply(r, s, f.of.eval(r, s)) }

type filterFunction = func(r *run, of Value, a passed) Value

// filterNamed finds a filter when it is used: a template may never come to use
// those that are not supported.
func filterNamed(name string) filterFunction {
	f, ok := filterFunctions[name]
	if !ok {
		fail("the filter %q is not supported", name)
	}
	return f
}

func testNamed(name string) filterFunction {
	t, ok := testFunctions[name]
	if !ok {
		fail("the test %q is not supported", name)
	}
	return t
}

func (f *filter) apply(r *run, s *scope, of Value) Value {
	r.step()
	if f.name != "safe" && f.name != "default" && f.name != "d" {
		barSafe(of, "the filter "+f.name+" over")
	}
	return filterNamed(f.name)(r, of, f.args.eval(r, s))
}

func (t test) eval(r *run, s *scope) Value {
	r.step()
	return testNamed(t.name)(r, t.of.eval(r, s), t.args.eval(r, s))
}

func (l logical) eval(r *run, s *scope) Value {
	left := l.left.eval(r, s)
	if truth(left) != l.and {
		return left
	}
	return l.right.eval(r, s)
}

func (c conditional) eval(r *run, s *scope) Value {
	if truth(c.test.eval(r, s)) {
		return c.then.eval(r, s)
	}
	if c.otherwise == nil {
		return missing("the inline if-expression evaluated to false and no else section was defined.")
	}
	return c.otherwise.eval(r, s)
}

func (c concatenation) eval(r *run, s *scope) Value {
	var b strings.Builder
	for _, e := range c.parts {
		part := r.text(e.eval(r, s))
		r.fits(b.Len() + len(part))
		b.WriteString(part)
	}
	return r.str(b.String())
}

// force makes the items of a generator, which may ask a generator for its own.
func (r *run) force(l *List) {
	if l.later == nil {
		return
	}
	if r.forced++; r.forced > maxForced {
		fail("generators go through each other more than %d deep", maxForced)
	}
	l.Items, l.later = l.later(), nil
	r.forced--
}

// items goes through a value as a for loop does.
func (r *run) items(v Value) []Value {
	switch v := v.(type) {
	case *undefined:
		return nil
	case string:
		r.make(element * len(v))
		items := make([]Value, 0, len(v))
		for _, c := range v {
			items = append(items, string(c))
		}
		return items
	case *List:
		if v.kind == generatorList {
			if v.spent {
				return nil
			}
			r.force(v)
			v.spent = true
		}
		return v.Items
	case *Dict:
		return v.keys
	}
	fail("'%s' object is not iterable", typeName(v))
	return nil
}
