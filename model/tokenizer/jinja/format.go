package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// format is format % values for the conversions that texts need: s, r, d, i,
// f, x, with flags, width and precision.
func (r *run) format(format string, values Value) string {
	args := []Value{values}
	if t, ok := values.(*List); ok && t.kind == tupleList {
		args = t.Items
	}
	var b strings.Builder
	next := 0
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		start := i
		for i++; i < len(format) && strings.IndexByte("-+ 0#123456789.", format[i]) >= 0; i++ {
		}
		if i == len(format) {
			fail("incomplete format")
		}
		verb := format[i]
		if verb == '%' {
			b.WriteByte('%')
			continue
		}
		if verb == '(' || verb == '*' {
			fail("the format %%%c is not supported", verb)
		}
		if next == len(args) {
			fail("not enough arguments for format string")
		}
		r.convert(&b, format[start:i], verb, args[next])
		r.fits(b.Len())
		next++
	}
	// Python only misses what is left over where it could not be a mapping,
	// for which it takes whatever has subscripts.
	switch v := values.(type) {
	case *Dict, *undefined:
		return b.String()
	case *List:
		if v.kind == plainList || v.kind == rangeList {
			return b.String()
		}
	}
	if next < len(args) {
		fail("not all arguments converted during string formatting")
	}
	return b.String()
}

// convert writes one value; flags begin with the percent sign.
func (r *run) convert(b *strings.Builder, flags string, verb byte, v Value) {
	for _, part := range strings.FieldsFunc(flags, func(c rune) bool { return c < '0' || c > '9' }) {
		if n, err := strconv.Atoi(part); err != nil || n > 1000 {
			fail("the format %s%c is too wide", flags, verb)
		}
	}
	switch verb {
	case 's', 'r':
		s := r.text(v)
		if verb == 'r' {
			var quoted strings.Builder
			r.write(&quoted, v, 0, true)
			s = quoted.String()
		}
		fmt.Fprintf(b, "%"+strings.TrimLeft(flags[1:], "+ 0#")+"s", s)
	case 'd', 'i', 'x', 'X':
		if f, ok := v.(float64); ok && verb != 'x' && verb != 'X' {
			v = int64(f)
		}
		n, ok := wholeNumber(v)
		if !ok {
			fail("%%%c format: a number is required, not %s", verb, typeName(v))
		}
		fmt.Fprintf(b, flags+string(map[byte]byte{'d': 'd', 'i': 'd', 'x': 'x', 'X': 'X'}[verb]), n)
	case 'f', 'F':
		f, ok := number(v)
		if !ok {
			fail("must be real number, not %s", typeName(v))
		}
		fmt.Fprintf(b, flags+"f", f)
	default:
		fail("the format %%%c is not supported", verb)
	}
}

// braces is str.format: {}, {0} and {name}, without anything more in them.
func (r *run) braces(format string, a passed) string {
	var b strings.Builder
	next := 0
	for i := 0; i < len(format); {
		c, n := utf8.DecodeRuneInString(format[i:])
		i += n
		if c != '{' && c != '}' {
			b.WriteRune(c)
			continue
		}
		if i < len(format) && rune(format[i]) == c {
			b.WriteRune(c)
			i++
			continue
		}
		end := strings.IndexByte(format[i:], '}')
		if c == '}' || end < 0 {
			fail("single '%c' encountered in format string", c)
		}
		b.WriteString(r.text(a.field(format[i:i+end], &next)))
		r.fits(b.Len())
		i += end + 1
	}
	return b.String()
}

// field is the argument that a name in braces stands for.
func (a passed) field(name string, next *int) Value {
	if name == "" {
		if *next < 0 {
			fail("cannot switch from manual field specification to automatic field numbering")
		}
		name = strconv.Itoa(*next)
		*next++
	} else if name[0] >= '0' && name[0] <= '9' {
		if *next > 0 {
			fail("cannot switch from automatic field numbering to manual field specification")
		}
		*next = -1
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 0 {
		if n >= len(a.positional) {
			fail("replacement index %d out of range for positional args tuple", n)
		}
		return a.positional[n]
	}
	for i, known := range a.names {
		if known == name {
			return a.named[i]
		}
	}
	fail("the format field {%s} is not supported, or has no argument", name)
	return nil
}
