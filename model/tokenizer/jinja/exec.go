package jinja

func (b block) exec(r *run, s *scope) signal {
	for _, st := range b {
		r.step()
		if sig := st.exec(r, s); sig != onward {
			return sig
		}
	}
	return onward
}

func (t textOutput) exec(r *run, _ *scope) signal {
	r.print(t.text)
	return onward
}

func (v valueOutput) exec(r *run, s *scope) signal {
	r.print(r.text(v.value.eval(r, s)))
	return onward
}

func (b branch) exec(r *run, s *scope) signal {
	for i, t := range b.tests {
		if truth(t.eval(r, s)) {
			return b.bodies[i].exec(r, s)
		}
	}
	return b.bodies[len(b.tests)].exec(r, s)
}

func (j jump) exec(*run, *scope) signal { return j.to }

func (a assignment) exec(r *run, s *scope) signal {
	a.target.assign(r, s, a.value.eval(r, s))
	return onward
}

func (t target) assign(r *run, s *scope, v Value) {
	switch {
	case t.several != nil:
		items := r.items(v)
		if len(items) < len(t.several) {
			fail("not enough values to unpack (expected %d, got %d)", len(t.several), len(items))
		}
		if len(items) > len(t.several) {
			fail("too many values to unpack (expected %d)", len(t.several))
		}
		for i, part := range t.several {
			part.assign(r, s, items[i])
		}
	case t.attribute != "":
		ns, ok := s.get(t.name).(*namespace)
		if !ok {
			fail("cannot assign attribute on non-namespace object")
		}
		ns.set(t.attribute, v)
	default:
		s.set(t.name, v)
	}
}

func (c capture) exec(r *run, s *scope) signal {
	var v Value = r.captured(func() { c.body.exec(r, s.inner()) })
	if c.filter != nil {
		v = c.filter.chain(r, s, v)
	}
	c.target.assign(r, s, v)
	return onward
}

func (f filterBlock) exec(r *run, s *scope) signal {
	text := r.captured(func() { f.body.exec(r, s.inner()) })
	r.print(r.text(f.filter.chain(r, s, text)))
	return onward
}

// chain applies filters that have no value of their own, first to last.
func (f *filter) chain(r *run, s *scope, v Value) Value {
	if f.of != nil {
		v = f.of.(*filter).chain(r, s, v)
	}
	return f.apply(r, s, v)
}

func (w with) exec(r *run, s *scope) signal {
	inner := s.inner()
	for i, t := range w.targets {
		t.assign(r, inner, w.values[i].eval(r, s))
	}
	return w.body.exec(r, inner)
}

func (g generation) exec(r *run, s *scope) signal {
	r.print(r.captured(func() { g.body.exec(r, s.inner()) }))
	return onward
}

// loopState is the variable loop.
type loopState struct {
	node    *loop
	scope   *scope // around the loop
	items   []Value
	at      int
	depth0  int
	changed []Value // what changed() was last called with, nil at first
}

func (l loop) exec(r *run, s *scope) signal {
	l.run(r, s, l.over.eval(r, s), 0)
	return onward
}

func (l *loop) run(r *run, s *scope, over Value, depth int) {
	items := r.items(over)
	if l.test != nil {
		var kept []Value
		for _, item := range items {
			r.step()
			inner := s.inner()
			l.target.assign(r, inner, item)
			if truth(l.test.eval(r, inner)) {
				kept = append(kept, item)
			}
		}
		items = kept
	}
	state := &loopState{node: l, scope: s, items: items, depth0: depth}
	for i, item := range items {
		r.step()
		state.at = i
		inner := s.inner()
		inner.set("loop", state)
		l.target.assign(r, inner, item)
		if l.body.exec(r, inner) == breakLoop {
			break
		}
	}
	if len(items) == 0 {
		l.els.exec(r, s.inner())
	}
}

func (l *loopState) attribute(name string) (Value, bool) {
	at, n := int64(l.at), int64(len(l.items))
	switch name {
	case "index":
		return at + 1, true
	case "index0":
		return at, true
	case "revindex":
		return n - at, true
	case "revindex0":
		return n - at - 1, true
	case "first":
		return at == 0, true
	case "last":
		return at == n-1, true
	case "length":
		return n, true
	case "depth":
		return int64(l.depth0 + 1), true
	case "depth0":
		return int64(l.depth0), true
	case "previtem":
		if at == 0 {
			return missing("there is no previous item"), true
		}
		return l.items[at-1], true
	case "nextitem":
		if at == n-1 {
			return missing("there is no next item"), true
		}
		return l.items[at+1], true
	case "cycle":
		return &function{"cycle", func(r *run, a passed) Value {
			if len(a.positional) == 0 {
				fail("no items for cycling given")
			}
			return a.positional[l.at%len(a.positional)]
		}}, true
	case "changed":
		return &function{"changed", func(r *run, a passed) Value {
			same := l.changed != nil && r.equal(NewList(l.changed...), NewList(a.positional...), 0)
			l.changed = append([]Value{}, a.positional...)
			return !same
		}}, true
	}
	return nil, false
}

// recurse is loop(...) in a recursive loop.
func (l *loopState) recurse(r *run, a passed) Value {
	if !l.node.recursive {
		fail("the loop is called, but has no 'recursive' marker")
	}
	if len(a.positional) != 1 || len(a.named) > 0 {
		fail("loop() takes one argument")
	}
	defer r.deeper()()
	return r.captured(func() { l.node.run(r, l.scope, a.positional[0], l.depth0+1) })
}

func (m *macro) exec(_ *run, s *scope) signal {
	s.set(m.name, m.bind(s))
	return onward
}

// bind makes a function of a macro in the scope where it stands.
func (m *macro) bind(s *scope) *function {
	return &function{m.name, func(r *run, a passed) Value {
		defer r.deeper()()
		inner := s.inner()
		m.fill(r, inner, a)
		return r.captured(func() { m.body.exec(r, inner) })
	}}
}

// fill gives the parameters of a macro their values.
func (m *macro) fill(r *run, s *scope, a passed) {
	rest, named := NewDict(), map[string]Value{}
	for i, name := range a.names {
		named[name] = a.named[i]
		rest.set(name, a.named[i])
	}
	kwargs := NewDict()
	for i, name := range rest.keys {
		taken := false
		for _, p := range m.parameters {
			taken = taken || p == name
		}
		if !taken && !(name == "caller" && m.caller) {
			if !m.kwargs {
				fail("macro '%s' takes no keyword argument '%s'", m.name, name)
			}
			kwargs.set(name, rest.values[i])
		}
	}
	for i, p := range m.parameters {
		v, given := named[p]
		switch {
		case i < len(a.positional):
			if given {
				fail("macro '%s' got multiple values for argument '%s'", m.name, p)
			}
			s.set(p, a.positional[i])
		case given:
			s.set(p, v)
		default:
			if d := i - (len(m.parameters) - len(m.defaults)); d >= 0 {
				s.set(p, m.defaults[d].eval(r, s))
			} else {
				s.set(p, missing("parameter '%s' was not provided", p))
			}
		}
	}
	extra := a.positional[min(len(m.parameters), len(a.positional)):]
	if len(extra) > 0 && !m.varags {
		fail("macro '%s' takes not more than %d argument(s)", m.name, len(m.parameters))
	}
	if m.varags {
		s.set("varargs", r.list(tupleList, extra))
	}
	if m.kwargs {
		s.set("kwargs", kwargs)
	}
	if m.caller {
		if v, ok := named["caller"]; ok {
			s.set("caller", v)
		} else {
			s.set("caller", missing("No caller defined"))
		}
	}
}

func (c callBlock) exec(r *run, s *scope) signal {
	a := c.of.args.eval(r, s)
	a.names, a.named = append(a.names, "caller"), append(a.named, c.body.bind(s))
	r.print(r.text(r.callValue(c.of.of.eval(r, s), a)))
	return onward
}
