package jinja

import (
	"strings"
	"unicode"
)

// testFunctions are the tests of jinja2.
var testFunctions map[string]func(r *run, of Value, a passed) Value

func init() {
	compare := func(op string) func(*run, Value, passed) Value {
		return func(r *run, of Value, a passed) Value {
			return r.compare(op, of, must("the test", "other", a.bind("the test", "other")[0]))
		}
	}
	is := func(check func(Value) bool) func(*run, Value, passed) Value {
		return func(_ *run, of Value, a passed) Value {
			a.bind("the test")
			return check(of)
		}
	}
	divides := func(n func(passed) Value, want int64) func(*run, Value, passed) Value {
		return func(r *run, of Value, a passed) Value {
			return r.equal(r.operate("%", of, n(a)), want, 0)
		}
	}
	two := func(a passed) Value { a.bind("the test"); return int64(2) }
	isUndefined := func(v Value) bool { _, ok := v.(*undefined); return ok }
	equals, unequal := compare("=="), compare("!=")
	less, most, more, least := compare("<"), compare("<="), compare(">"), compare(">=")
	testFunctions = map[string]func(*run, Value, passed) Value{
		"defined": is(func(v Value) bool { return !isUndefined(v) }), "undefined": is(isUndefined),
		"none":    is(func(v Value) bool { return v == nil }),
		"boolean": is(func(v Value) bool { _, ok := v.(bool); return ok }),
		"true":    is(func(v Value) bool { return v == true }), "false": is(func(v Value) bool { return v == false }),
		"integer":  is(func(v Value) bool { _, ok := v.(int64); return ok }),
		"float":    is(func(v Value) bool { _, ok := v.(float64); return ok }),
		"number":   is(func(v Value) bool { _, ok := number(v); return ok }),
		"string":   is(func(v Value) bool { return isString(unsafe(v)) }),
		"mapping":  is(func(v Value) bool { _, ok := v.(*Dict); return ok }),
		"iterable": is(isIterable), "sequence": is(isSequence), "callable": is(isCallable),
		"lower": func(r *run, of Value, a passed) Value { a.bind("lower"); return cased(r.text(of), unicode.IsLower) },
		"upper": func(r *run, of Value, a passed) Value { a.bind("upper"); return cased(r.text(of), unicode.IsUpper) },
		"odd":   divides(two, 1), "even": divides(two, 0),
		"divisibleby": divides(func(a passed) Value { return must("divisibleby", "num", a.bind("divisibleby", "num")[0]) }, 0),
		"==":          equals, "eq": equals, "equalto": equals, "!=": unequal, "ne": unequal,
		"<": less, "lt": less, "lessthan": less, "<=": most, "le": most,
		">": more, "gt": more, "greaterthan": more, ">=": least, "ge": least,
		"in": compare("in"),
		"sameas": func(_ *run, of Value, a passed) Value {
			return of == must("sameas", "other", a.bind("sameas", "other")[0])
		},
		"filter": named(func(s string) bool { _, ok := filterFunctions[s]; return ok }),
		"test":   named(func(s string) bool { _, ok := testFunctions[s]; return ok }),
	}
}

func named(known func(string) bool) func(*run, Value, passed) Value {
	return func(_ *run, of Value, a passed) Value {
		a.bind("the test")
		s, ok := of.(string)
		return ok && known(s)
	}
}

func isIterable(v Value) bool {
	switch v.(type) {
	case string, *safeText, *List, *Dict, *undefined, *loopState:
		return true
	}
	return false
}

func isSequence(v Value) bool {
	switch v := v.(type) {
	case *List:
		return v.kind <= rangeList
	case string, *safeText, *Dict, *undefined:
		return true
	}
	return false
}

func isCallable(v Value) bool {
	switch v.(type) {
	case *function, *undefined, *loopState:
		return true
	}
	return false
}

// cased is str.islower() and isupper(): a cased letter, and none of the other case.
func cased(s string, want func(rune) bool) bool {
	has := false
	for _, c := range s {
		if unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c) {
			if !want(c) {
				return false
			}
			has = true
		}
	}
	return has && strings.ToValidUTF8(s, "") != ""
}
