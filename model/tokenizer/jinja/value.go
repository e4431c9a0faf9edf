package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Value is a value of a template: nil (none), bool, int64, float64, string,
// [*List] or [*Dict]. Templates make some more kinds, which stay inside.
// Values given to a template are not changed, and must not be while it runs.
type Value any

type listKind uint8

const (
	plainList listKind = iota
	tupleList
	rangeList
	viewList      // of the keys, values or items of a dict
	generatorList // can be gone through once
)

// List is a list of values.
type List struct {
	Items []Value
	kind  listKind
	spent bool // a generator that has been gone through
	// later makes the items of a generator when they are asked for, nil if it
	// has: until then, what is wrong with them is no error.
	later func() []Value
	group bool // a tuple of groupby, which has names for its parts
}

// NewList makes a list, which keeps items.
func NewList(items ...Value) *List { return &List{Items: items} }

// Dict is a dict: it keeps the order in which keys were first set.
type Dict struct {
	keys   []Value
	values []Value
	index  map[Value]int // nil while there are few keys: most dicts are small
}

// fewKeys are looked through faster than a map, which takes more than they do.
const fewKeys = 8

// NewDict makes an empty dict.
func NewDict() *Dict { return &Dict{} }

// Set sets the value of a key.
func (d *Dict) Set(key string, v Value) { d.set(key, v) }

// Get returns the value of a key.
func (d *Dict) Get(key string) (Value, bool) { return d.get(key) }

func (d *Dict) set(key, v Value) {
	k := hashable(key)
	if i, ok := d.find(k); ok {
		d.values[i] = v
		return
	}
	d.keys = append(d.keys, key)
	d.values = append(d.values, v)
	switch n := len(d.keys); {
	case d.index != nil:
		d.index[k] = n - 1
	case n > fewKeys:
		d.index = make(map[Value]int, 2*n)
		for i, key := range d.keys {
			d.index[hashable(key)] = i
		}
	}
}

func (d *Dict) get(key Value) (Value, bool) {
	i, ok := d.find(hashable(key))
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// find looks up what hashable made of a key.
func (d *Dict) find(k Value) (int, bool) {
	if d.index != nil {
		i, ok := d.index[k]
		return i, ok
	}
	for i, key := range d.keys {
		if hashable(key) == k {
			return i, true
		}
	}
	return 0, false
}

// hashable makes equal keys of equal values: True, 1 and 1.0 are one key.
func hashable(v Value) Value {
	switch v := v.(type) {
	case nil, string, int64, *namespace, *function:
		return v
	case *undefined:
		return undefined{} // all are equal
	case bool:
		return boolInt(v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
		return v
	}
	fail("%s cannot be a key of a dict", typeName(v))
	return nil
}

// undefined is the value of what is not there. It prints as nothing, and
// anything but asking and printing is the error it holds.
type undefined struct{ message string }

func missing(format string, args ...any) *undefined { return &undefined{fmt.Sprintf(format, args...)} }

// namespace is what namespace() makes: the only value that can be changed.
type namespace struct{ dict *Dict }

// function is what can be called.
type function struct {
	name string
	call func(r *run, a passed) Value
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// typeName is type(v).__name__.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		return [...]string{"list", "tuple", "range", "dict view", "generator"}[v.kind]
	case *Dict:
		return "dict"
	case *undefined:
		return "Undefined"
	case *safeText:
		return "Markup"
	case *namespace:
		return "Namespace"
	case *loopState:
		return "LoopContext"
	}
	return "function"
}

// objectName is what the reference calls v where it has no such attribute.
func objectName(v Value) string {
	if v == nil {
		return "None"
	}
	return typeName(v) + " object"
}

func truth(v Value) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *safeText:
		return v.text != ""
	case *List:
		return v.kind == generatorList || len(v.Items) > 0
	case *Dict:
		return len(v.keys) > 0
	}
	return true
}

// floatText is repr of a float.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	if exponent, err := strconv.Atoi(s[strings.IndexByte(s, 'e')+1:]); err == nil && (exponent < -4 || exponent >= 16) {
		return s
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// text is str(v).
func (r *run) text(v Value) string {
	if s, ok := v.(string); ok {
		return s
	}
	var b strings.Builder
	r.write(&b, v, 0, false)
	return b.String()
}

// write writes str(v), or repr(v) inside of lists and dicts.
func (r *run) write(b *strings.Builder, v Value, depth int, quoted bool) {
	if depth > maxDeep {
		fail("a value is nested more than %d deep", maxDeep)
	}
	r.step()
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(floatText(v))
	case string:
		if quoted {
			writeQuoted(b, v)
		} else {
			b.WriteString(v)
		}
	case *safeText:
		if quoted {
			b.WriteString("Markup(")
			writeQuoted(b, v.text)
			b.WriteByte(')')
		} else {
			b.WriteString(v.text)
		}
	case *undefined:
		if quoted {
			b.WriteString("Undefined")
		}
	case *List:
		r.writeList(b, v, depth)
	case *Dict:
		b.WriteByte('{')
		for i, key := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			r.write(b, key, depth+1, true)
			b.WriteString(": ")
			r.write(b, v.values[i], depth+1, true)
		}
		b.WriteByte('}')
	case *namespace:
		b.WriteString("<Namespace ")
		r.write(b, v.dict, depth+1, true)
		b.WriteByte('>')
	default:
		fail("printing a %s is not supported", typeName(v))
	}
	r.fits(b.Len())
}

func (r *run) writeList(b *strings.Builder, v *List, depth int) {
	open, end := "[", "]"
	switch v.kind {
	case tupleList:
		if open, end = "(", ")"; len(v.Items) == 1 {
			end = ",)"
		}
	case rangeList, viewList, generatorList:
		fail("printing a %s is not supported: make a list of it", typeName(v))
	}
	b.WriteString(open)
	for i, item := range v.Items {
		if i > 0 {
			b.WriteString(", ")
		}
		r.write(b, item, depth+1, true)
	}
	b.WriteString(end)
}

// writeQuoted writes repr of a string.
func writeQuoted(b *strings.Builder, s string) {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, "\"") {
		quote = '"'
	}
	b.WriteRune(quote)
	for _, c := range s {
		switch {
		case c == quote || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c == 0x7F:
			fmt.Fprintf(b, `\x%02x`, c)
		case c < 0x7F || printable(c):
			b.WriteRune(c)
		case c <= 0xFF:
			fmt.Fprintf(b, `\x%02x`, c)
		case c <= 0xFFFF:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			fmt.Fprintf(b, `\U%08x`, c)
		}
	}
	b.WriteRune(quote)
}

// printable is str.isprintable() of a character. Private-use characters are
// none in Python; here those of the planes behind U+F0000 are, because the
// tokenizer marks texts of users with them.
func printable(c rune) bool {
	return unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) || c == ' ' || c >= 0xF0000 && c <= utf8.MaxRune
}
