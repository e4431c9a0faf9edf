package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The methods that values have in Python. Those that change a value exist,
// but the sandbox does not let anybody call them.
var (
	listMethods, dictMethods map[string]func(r *run, of Value, a passed) Value
	stringMethods            map[string]func(r *run, s string, a passed) Value
)

var mutating = map[string][]string{
	"list": {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"},
	"dict": {"clear", "pop", "popitem", "setdefault", "update"},
}

// unsupported are methods of str that templates have no use for.
var unsupported = []string{"encode", "translate", "maketrans", "format_map", "isidentifier", "isprintable", "casefold", "expandtabs"}

func method(of Value, name string) (Value, bool) {
	if slices.Contains(mutating[typeName(of)], name) {
		return missing("access to attribute '%s' of '%s' object is unsafe.", name, typeName(of)), true
	}
	var call func(*run, passed) Value
	switch of := of.(type) {
	case string:
		if m, ok := stringMethods[name]; ok {
			call = func(r *run, a passed) Value { return m(r, of, a) }
		} else if slices.Contains(unsupported, name) {
			fail("the str method %s is not supported", name)
		}
	case *Dict:
		if m, ok := dictMethods[name]; ok {
			call = func(r *run, a passed) Value { return m(r, of, a) }
		}
	case *List:
		if of.group && (name == "grouper" || name == "list") {
			return of.Items[map[string]int{"grouper": 0, "list": 1}[name]], true
		}
		if m, ok := listMethods[name]; ok && of.kind <= rangeList && (name != "copy" || of.kind == plainList) {
			call = func(r *run, a passed) Value { return m(r, of, a) }
		}
	case float64:
		if name == "is_integer" {
			call = func(_ *run, _ passed) Value { return of == float64(int64(of)) }
		}
	}
	if call == nil {
		return nil, false
	}
	return &function{name, call}, true
}

func init() {
	dictMethods = map[string]func(*run, Value, passed) Value{
		"get": func(_ *run, of Value, a passed) Value {
			p := a.bind("get", "key", "default")
			if len(a.named) > 0 {
				fail("dict.get() takes no keyword arguments")
			}
			key := must("get", "key", p[0])
			if _, ok := key.(*undefined); !ok {
				if v, ok := of.(*Dict).get(key); ok {
					return v
				}
			}
			if p[1] == absent {
				return nil
			}
			return p[1]
		},
		"keys":   func(r *run, of Value, a passed) Value { a.bind("keys"); return r.list(viewList, of.(*Dict).keys) },
		"values": func(r *run, of Value, a passed) Value { a.bind("values"); return r.list(viewList, of.(*Dict).values) },
		"items":  func(r *run, of Value, a passed) Value { a.bind("items"); return r.list(viewList, r.pairs(of.(*Dict))) },
		"copy": func(r *run, of Value, a passed) Value {
			a.bind("copy")
			return r.merged(of.(*Dict), passed{})
		},
	}
	listMethods = map[string]func(*run, Value, passed) Value{
		"count": func(r *run, of Value, a passed) Value {
			v, n := must("count", "value", a.bind("count", "value")[0]), int64(0)
			for _, item := range of.(*List).Items {
				if r.equal(item, v, 0) {
					n++
				}
			}
			return n
		},
		"index": func(r *run, of Value, a passed) Value {
			v := must("index", "value", a.bind("index", "value")[0])
			for i, item := range of.(*List).Items {
				if r.equal(item, v, 0) {
					return int64(i)
				}
			}
			fail("the value is not in the list")
			return nil
		},
		"copy": func(r *run, of Value, a passed) Value {
			a.bind("copy")
			return r.list(plainList, slices.Clone(of.(*List).Items))
		},
	}
	stringMethods = textMethods()
}

func textMethods() map[string]func(*run, string, passed) Value {
	change := func(f func(string) string) func(*run, string, passed) Value {
		return func(r *run, s string, a passed) Value { a.bind("a str method"); return r.str(f(s)) }
	}
	every := func(is func(rune) bool) func(*run, string, passed) Value {
		return func(_ *run, s string, a passed) Value {
			a.bind("a str method")
			return s != "" && strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0
		}
	}
	strip := func(left, right bool) func(*run, string, passed) Value {
		return func(r *run, s string, a passed) Value {
			return r.str(stripped(s, a.bind("strip", "chars")[0], left, right))
		}
	}
	pad := func(left func(room, width int) int) func(*run, string, passed) Value {
		return func(r *run, s string, a passed) Value {
			p := a.bind("str padding", "width", "fillchar")
			return r.padded(s, wholeOf("width", must("str padding", "width", p[0])), stringOr("fillchar", p[1], " "), left)
		}
	}
	return map[string]func(*run, string, passed) Value{
		"capitalize": change(capitalize), "lower": change(lowered), "upper": change(raised),
		"title": change(titleMethod), "swapcase": change(swapCase),
		"strip": strip(true, true), "lstrip": strip(true, false), "rstrip": strip(false, true),
		"ljust":  pad(func(int, int) int { return 0 }),
		"rjust":  pad(func(room, _ int) int { return room }),
		"center": pad(func(room, width int) int { return room/2 + room&width&1 }),
		"zfill":  zfill, "startswith": affix(strings.HasPrefix), "endswith": affix(strings.HasSuffix),
		"removeprefix": func(_ *run, s string, a passed) Value {
			return strings.TrimPrefix(s, stringOf("removeprefix", a.bind("removeprefix", "prefix")[0]))
		},
		"removesuffix": func(_ *run, s string, a passed) Value {
			return strings.TrimSuffix(s, stringOf("removesuffix", a.bind("removesuffix", "suffix")[0]))
		},
		"replace": func(r *run, s string, a passed) Value {
			p := a.bind("replace", "old", "new", "count")
			return r.replaced(s, stringOf("replace", p[0]), stringOf("replace", p[1]), wholeOr("replace", p[2], -1))
		},
		"join": func(r *run, s string, a passed) Value {
			return r.joined(r.items(must("join", "iterable", a.bind("join", "iterable")[0])), s, true)
		},
		"count": func(_ *run, s string, a passed) Value {
			return int64(strings.Count(s, stringOf("count", a.bind("count", "sub")[0])))
		},
		"find": finder(strings.Index, false), "rfind": finder(strings.LastIndex, false),
		"index": finder(strings.Index, true), "rindex": finder(strings.LastIndex, true),
		"partition": parted(strings.Index, false), "rpartition": parted(strings.LastIndex, true),
		"split": split, "rsplit": rsplit,
		"splitlines": func(r *run, s string, a passed) Value {
			return r.strings(r.splitLines(s, truthOr(a.bind("splitlines", "keepends")[0], false)))
		},
		"format":  func(r *run, s string, a passed) Value { return r.str(r.braces(s, a)) },
		"isalpha": every(unicode.IsLetter), "isspace": every(IsSpace), "isdecimal": every(unicode.IsDigit),
		"isdigit": every(func(c rune) bool {
			return unicode.IsDigit(c) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", c)
		}),
		"isnumeric": every(unicode.IsNumber),
		"isalnum":   every(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isascii":   func(_ *run, s string, a passed) Value { a.bind("isascii"); return ascii(s) },
		"islower":   func(_ *run, s string, a passed) Value { a.bind("islower"); return cased(s, unicode.IsLower) },
		"isupper":   func(_ *run, s string, a passed) Value { a.bind("isupper"); return cased(s, unicode.IsUpper) },
		"istitle": func(_ *run, s string, a passed) Value {
			a.bind("istitle")
			return s == titleMethod(s) && s != lowered(s)
		},
	}
}

// strings is a list of strings as a value.
func (r *run) strings(parts []string) Value {
	items := make([]Value, len(parts))
	for i, p := range parts {
		items[i] = p
	}
	return r.list(plainList, items)
}

// titleMethod is str.title(): letters behind anything but letters are capital.
func titleMethod(s string) string {
	var b strings.Builder
	inside := false
	runes := []rune(s)
	for i, c := range runes {
		if inside {
			b.WriteString(lowerAt(runes, i))
		} else {
			b.WriteString(capitalize(string(c)))
		}
		inside = unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c)
	}
	return b.String()
}

func swapCase(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i, c := range runes {
		switch {
		case unicode.IsUpper(c):
			b.WriteString(lowerAt(runes, i))
		case unicode.IsLower(c):
			b.WriteString(raised(string(c)))
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

func zfill(r *run, s string, a passed) Value {
	width := wholeOf("zfill", must("zfill", "width", a.bind("zfill", "width")[0]))
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
		width--
	}
	filled, _ := r.padded(s, width, "0", func(room, _ int) int { return room }).(string)
	return sign + filled
}

// affix makes startswith and endswith, which take a text or a tuple of texts
// and may begin at an offset.
func affix(has func(s, part string) bool) func(*run, string, passed) Value {
	return func(r *run, s string, a passed) Value {
		p := a.bind("startswith or endswith", "prefix", "start")
		if start := wholeOr("start", p[1], 0); start != 0 {
			runes := []rune(s)
			if start < 0 {
				start = max(start+len(runes), 0)
			}
			if start > len(runes) {
				return false
			}
			s = string(runes[start:])
		}
		if tuple, ok := p[0].(*List); ok && tuple.kind == tupleList {
			for _, part := range tuple.Items {
				if has(s, stringOf("startswith or endswith", part)) {
					return true
				}
			}
			return false
		}
		return has(s, stringOf("startswith or endswith", p[0]))
	}
}

// finder makes find and its kin; offsets count characters.
func finder(find func(s, part string) int, strict bool) func(*run, string, passed) Value {
	return func(_ *run, s string, a passed) Value {
		p := a.bind("find", "sub", "start")
		part, skipped := stringOf("find", p[0]), 0
		if start := wholeOr("start", p[1], 0); start != 0 {
			runes := []rune(s)
			if start < 0 {
				start = max(start+len(runes), 0)
			}
			skipped = min(start, len(runes))
			s = string(runes[skipped:])
		}
		at := find(s, part)
		switch {
		case at >= 0:
			return int64(skipped + utf8.RuneCountInString(s[:at]))
		case strict:
			fail("substring not found")
		}
		return int64(-1)
	}
}

func parted(find func(s, part string) int, fromRight bool) func(*run, string, passed) Value {
	return func(r *run, s string, a passed) Value {
		sep := stringOf("partition", a.bind("partition", "sep")[0])
		if sep == "" {
			fail("empty separator")
		}
		parts := []Value{s, "", ""}
		if at := find(s, sep); at >= 0 {
			parts = []Value{s[:at], sep, s[at+len(sep):]}
		} else if fromRight {
			parts = []Value{"", "", s}
		}
		return r.list(tupleList, parts)
	}
}

func separator(what string, v Value) (sep string, white bool) {
	if v == absent || v == nil {
		return "", true
	}
	if sep = stringOf(what, v); sep == "" {
		fail("empty separator")
	}
	return sep, false
}

func split(r *run, s string, a passed) Value {
	p := a.bind("split", "sep", "maxsplit")
	limit := wholeOr("split", p[1], -1)
	sep, white := separator("split", p[0])
	if !white {
		cuts := strings.Count(s, sep)
		if limit >= 0 {
			cuts = min(cuts, limit)
		}
		r.fits(element * cuts) // before there are as many parts
		return r.strings(strings.SplitN(s, sep, cuts+1))
	}
	var parts []string
	for s = strings.TrimLeftFunc(s, IsSpace); s != ""; s = strings.TrimLeftFunc(s, IsSpace) {
		end := strings.IndexFunc(s, IsSpace)
		if end < 0 || len(parts) == limit {
			end = len(s)
		}
		r.fits(element * len(parts))
		parts = append(parts, s[:end])
		s = s[end:]
	}
	return r.strings(parts)
}

func rsplit(r *run, s string, a passed) Value {
	p := a.bind("rsplit", "sep", "maxsplit")
	limit := wholeOr("rsplit", p[1], -1)
	sep, white := separator("rsplit", p[0])
	if limit < 0 {
		return split(r, s, passed{positional: []Value{orNone(p[0])}})
	}
	var parts []string
	for {
		r.fits(element * len(parts))
		if white {
			if s = strings.TrimRightFunc(s, IsSpace); s == "" {
				break
			}
		}
		at, n := -1, 0
		if len(parts) < limit {
			if white {
				if at = strings.LastIndexFunc(s, IsSpace); at >= 0 {
					_, n = utf8.DecodeRuneInString(s[at:])
				}
			} else {
				at, n = strings.LastIndex(s, sep), len(sep)
			}
		}
		if at < 0 {
			parts = append(parts, s)
			break
		}
		parts = append(parts, s[at+n:])
		s = s[:at]
	}
	slices.Reverse(parts)
	return r.strings(parts)
}

func orNone(v Value) Value {
	if v == absent {
		return nil
	}
	return v
}
