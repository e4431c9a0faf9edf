package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// getter makes a function that looks up an attribute, like "function.name" or
// an index; otherwise is what stands for one that is not there.
func (r *run) getter(attribute, otherwise Value) func(Value) Value {
	var parts []Value
	if s, ok := attribute.(string); ok {
		for _, part := range strings.Split(s, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil && n >= 0 {
				parts = append(parts, n)
			} else {
				parts = append(parts, part)
			}
		}
	} else {
		parts = []Value{attribute}
	}
	return func(v Value) Value {
		for _, part := range parts {
			v = item(v, part)
			if _, ok := v.(*undefined); ok && otherwise != absent && otherwise != nil {
				v = otherwise
			}
		}
		return v
	}
}

func (r *run) mapped(items []Value, change func(Value) Value) []Value {
	out := make([]Value, len(items))
	for i, item := range items {
		r.step()
		out[i] = change(item)
	}
	return out
}

// generator is a generator of what make returns when somebody asks.
func (r *run) generator(make func() []Value) Value {
	return &List{kind: generatorList, later: func() []Value {
		items := make()
		r.make(element * len(items))
		return items
	}}
}

// itemsOrNone goes through a value as map and select do: what is false has none.
func (r *run) itemsOrNone(v Value) []Value {
	if !truth(v) {
		return nil
	}
	return r.items(v)
}

func mapFilter(r *run, of Value, a passed) Value {
	if len(a.positional) == 0 && slices.Contains(a.names, "attribute") {
		p := a.bind("map", "attribute", "default")
		return r.generator(func() []Value { return r.mapped(r.itemsOrNone(of), r.getter(p[0], p[1])) })
	}
	return r.generator(func() []Value {
		items := r.itemsOrNone(of)
		if len(items) == 0 {
			return nil
		}
		if len(a.positional) == 0 {
			fail("map requires a filter argument")
		}
		f := filterNamed(stringOf("map", a.positional[0]))
		rest := passed{a.positional[1:], a.names, a.named}
		return r.mapped(items, func(v Value) Value { return f(r, v, rest) })
	})
}

// selectFilter makes select, reject and their forms for attributes.
func selectFilter(keep, byAttribute bool) func(*run, Value, passed) Value {
	chosen := func(r *run, of Value, a passed) []Value {
		items := r.itemsOrNone(of)
		if len(items) == 0 {
			return nil
		}
		get := func(v Value) Value { return v }
		if byAttribute {
			if len(a.positional) == 0 {
				fail("missing parameter for attribute name")
			}
			get = r.getter(a.positional[0], absent)
			a.positional = a.positional[1:]
		}
		holds := truth
		if len(a.positional) > 0 {
			name := stringOf("select", a.positional[0])
			t := testNamed(name)
			rest := passed{a.positional[1:], a.names, a.named}
			holds = func(v Value) bool { return truth(t(r, v, rest)) }
		}
		var kept []Value
		for _, v := range items {
			r.step()
			if holds(get(v)) == keep {
				kept = append(kept, v)
			}
		}
		return kept
	}
	return func(r *run, of Value, a passed) Value {
		return r.generator(func() []Value { return chosen(r, of, a) })
	}
}

func firstFilter(r *run, of Value, a passed) Value {
	a.bind("first")
	// Only one element of a generator is taken.
	if g, ok := of.(*List); ok && g.kind == generatorList && !g.spent {
		if r.force(g); len(g.Items) > 0 {
			first := g.Items[0]
			g.Items = g.Items[1:]
			return first
		}
	}
	if items := r.items(of); len(items) > 0 {
		return items[0]
	}
	return missing("No first item, sequence was empty.")
}

func lastFilter(r *run, of Value, a passed) Value {
	a.bind("last")
	if g, ok := of.(*List); ok && g.kind == generatorList {
		fail("'generator' object is not reversible")
	}
	if items := r.items(of); len(items) > 0 {
		return items[len(items)-1]
	}
	return missing("No last item, sequence was empty.")
}

func listFilter(r *run, of Value, a passed) Value {
	a.bind("list")
	return r.list(plainList, slices.Clone(r.items(of)))
}

func itemsFilter(r *run, of Value, a passed) Value {
	a.bind("items")
	return r.generator(func() []Value {
		switch of := of.(type) {
		case *undefined:
		case *Dict:
			return r.pairs(of)
		default:
			fail("can only get item pairs from a mapping")
		}
		return nil
	})
}

func (r *run) pairs(d *Dict) []Value {
	out := make([]Value, len(d.keys))
	for i, key := range d.keys {
		out[i] = r.list(tupleList, []Value{key, d.values[i]})
	}
	return out
}

func reverseFilter(r *run, of Value, a passed) Value {
	a.bind("reverse")
	if s, ok := of.(string); ok {
		runes := []rune(s)
		slices.Reverse(runes)
		return r.str(string(runes))
	}
	generator := false
	if l, ok := of.(*List); ok {
		generator = l.kind == generatorList
	}
	items := slices.Clone(r.items(of))
	slices.Reverse(items)
	if generator {
		return r.list(plainList, items)
	}
	return r.list(generatorList, items)
}

// folded is a key of sorting without case.
func folded(v Value, sensitive bool) Value {
	if s, ok := v.(string); ok && !sensitive {
		return lowered(s)
	}
	return v
}

// sorted sorts items by keys, which it computes once.
func (r *run) sorted(items []Value, key func(Value) Value, reverse bool) []Value {
	type keyed struct{ key, item Value }
	all := make([]keyed, len(items))
	for i, item := range items {
		all[i] = keyed{key(item), item}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		if reverse {
			a, b = b, a
		}
		return r.order("<", a.key, b.key, 0) % unordered
	})
	out := make([]Value, len(items))
	for i, k := range all {
		out[i] = k.item
	}
	return out
}

func sortFilter(r *run, of Value, a passed) Value {
	p := a.bind("sort", "reverse", "case_sensitive", "attribute")
	sensitive := truthOr(p[1], false)
	key := func(v Value) Value { return folded(v, sensitive) }
	if p[2] != absent && p[2] != nil {
		var getters []func(Value) Value
		if s, ok := p[2].(string); ok {
			for _, one := range strings.Split(s, ",") {
				getters = append(getters, r.getter(one, absent))
			}
		} else {
			getters = append(getters, r.getter(p[2], absent))
		}
		key = func(v Value) Value {
			keys := &List{}
			for _, get := range getters {
				keys.Items = append(keys.Items, folded(get(v), sensitive))
			}
			return keys
		}
	}
	return r.list(plainList, r.sorted(r.items(of), key, truthOr(p[0], false)))
}

func dictSortFilter(r *run, of Value, a passed) Value {
	p := a.bind("dictsort", "case_sensitive", "by", "reverse")
	d, ok := of.(*Dict)
	if !ok {
		fail("dictsort wants a dict, not %s", typeName(of))
	}
	at := map[string]int64{"key": 0, "value": 1}
	by, ok := at[stringOr("dictsort", p[1], "key")]
	if !ok {
		fail(`you can only sort by either "key" or "value"`)
	}
	sensitive := truthOr(p[0], false)
	key := func(v Value) Value { return folded(v.(*List).Items[by], sensitive) }
	return r.list(plainList, r.sorted(r.pairs(d), key, truthOr(p[2], false)))
}

func uniqueFilter(r *run, of Value, a passed) Value {
	p := a.bind("unique", "case_sensitive", "attribute")
	get := func(v Value) Value { return v }
	if p[1] != absent && p[1] != nil {
		get = r.getter(p[1], absent)
	}
	return r.generator(func() []Value {
		seen := map[Value]bool{}
		var kept []Value
		for _, v := range r.items(of) {
			key := hashable(folded(get(v), truthOr(p[0], false)))
			if !seen[key] {
				seen[key] = true
				kept = append(kept, v)
			}
		}
		return kept
	})
}

// extremeFilter makes min and max.
func extremeFilter(want int) func(*run, Value, passed) Value {
	return func(r *run, of Value, a passed) Value {
		p := a.bind("min or max", "case_sensitive", "attribute")
		get := func(v Value) Value { return v }
		if p[1] != absent && p[1] != nil {
			get = r.getter(p[1], absent)
		}
		items := r.items(of)
		if len(items) == 0 {
			return missing("No aggregated item, sequence was empty.")
		}
		sensitive := truthOr(p[0], false)
		best := items[0]
		for _, v := range items[1:] {
			if r.order("<", folded(get(v), sensitive), folded(get(best), sensitive), 0) == want {
				best = v
			}
		}
		return best
	}
}

func sumFilter(r *run, of Value, a passed) Value {
	p := a.bind("sum", "attribute", "start")
	items := r.items(of)
	if p[0] != absent && p[0] != nil {
		items = r.mapped(items, r.getter(p[0], absent))
	}
	total := p[1]
	if total == absent {
		total = int64(0)
	}
	if isString(total) {
		fail("sum() can't sum strings")
	}
	for _, v := range items {
		total = r.operate("+", total, v)
	}
	return total
}

func groupByFilter(r *run, of Value, a passed) Value {
	p := a.bind("groupby", "attribute", "default", "case_sensitive")
	get := r.getter(must("groupby", "attribute", p[0]), p[1])
	sensitive := truthOr(p[2], false)
	key := func(v Value) Value { return folded(get(v), sensitive) }
	var groups []Value
	var last *List
	var lastKey Value
	for _, v := range r.sorted(r.items(of), key, false) {
		k := key(v)
		if last == nil || !r.equal(k, lastKey, 0) {
			last, lastKey = r.list(plainList, nil), k
			group := r.list(tupleList, []Value{get(v), last})
			group.group = true
			groups = append(groups, group)
		}
		last.Items = append(last.Items, v)
	}
	return r.list(plainList, groups)
}

func batchFilter(r *run, of Value, a passed) Value {
	p := a.bind("batch", "linecount", "fill_with")
	must("batch", "linecount", p[0])
	return r.generator(func() []Value { return r.batches(r.items(of), wholeOf("batch", p[0]), p[1]) })
}

func (r *run) batches(items []Value, count int, fill Value) []Value {
	if count < 1 {
		fail("batch of %d is not supported", count)
	}
	var rows []Value
	for chunk := range slices.Chunk(items, count) {
		row := slices.Clone(chunk)
		if missing := count - len(row); missing > 0 && fill != absent && fill != nil {
			r.fits(missing)
			row = append(row, slices.Repeat([]Value{fill}, missing)...)
		}
		rows = append(rows, r.list(plainList, row))
	}
	return rows
}

func sliceFilter(r *run, of Value, a passed) Value {
	p := a.bind("slice", "slices", "fill_with")
	must("slice", "slices", p[0])
	return r.generator(func() []Value { return r.slices(r.items(of), wholeOf("slice", p[0]), p[1]) })
}

func (r *run) slices(items []Value, count int, fill Value) []Value {
	if count < 1 || count > r.size/element {
		fail("slice into %d is not supported", count)
	}
	each, more := len(items)/count, len(items)%count
	var rows []Value
	at := 0
	for i := range count {
		n := each
		if i < more {
			n++
		}
		row := slices.Clone(items[at : at+n])
		if at += n; fill != absent && fill != nil && i >= more {
			row = append(row, fill)
		}
		rows = append(rows, r.list(plainList, row))
	}
	return rows
}
