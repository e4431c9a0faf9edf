package jinja

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// toJSON is json.dumps with the options that transformers lets through.
func toJSON(r *run, of Value, a passed) Value {
	p := a.bind("tojson", "ensure_ascii", "indent", "separators", "sort_keys")
	w := jsonWriter{r: r, flat: true, item: ", ", key: ": ", ascii: truthOr(p[0], false), sorted: truthOr(p[3], false)}
	if p[1] != absent && p[1] != nil {
		w.flat, w.item = false, ","
		if s, ok := p[1].(string); ok {
			w.indent = s
		} else {
			n := max(wholeOf("tojson", p[1]), 0)
			r.fits(n)
			w.indent = strings.Repeat(" ", n)
		}
	}
	if p[2] != absent && p[2] != nil {
		parts := r.items(p[2])
		if len(parts) != 2 {
			fail("tojson wants two separators")
		}
		w.item, w.key = stringOf("tojson", parts[0]), stringOf("tojson", parts[1])
	}
	w.value(of, 0)
	return r.str(w.b.String())
}

type jsonWriter struct {
	r         *run
	b         strings.Builder
	flat      bool // all on one line
	indent    string
	item, key string
	ascii     bool
	sorted    bool
}

func (w *jsonWriter) value(v Value, depth int) {
	w.r.step()
	w.r.fits(w.b.Len())
	if depth > maxDeep {
		fail("a value is nested more than %d deep", maxDeep)
	}
	switch v := v.(type) {
	case string:
		w.text(v)
	case *List:
		if v.kind > tupleList {
			fail("object of type %s is not JSON serializable", typeName(v))
		}
		w.group('[', ']', len(v.Items), depth, func(i int) { w.value(v.Items[i], depth+1) })
	case *Dict:
		order := make([]int, len(v.keys))
		for i := range order {
			order[i] = i
		}
		if w.sorted {
			slices.SortStableFunc(order, func(a, b int) int { return w.r.order("<", v.keys[a], v.keys[b], 0) })
		}
		w.group('{', '}', len(order), depth, func(i int) {
			key := v.keys[order[i]]
			if s, ok := key.(string); ok {
				w.text(s)
			} else {
				w.text(jsonScalar(key))
			}
			w.b.WriteString(w.key)
			w.value(v.values[order[i]], depth+1)
		})
	default:
		w.b.WriteString(jsonScalar(v))
	}
}

func jsonScalar(v Value) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprint(v)
	case int64:
		return fmt.Sprint(v)
	case float64:
		switch {
		case math.IsNaN(v):
			return "NaN"
		case math.IsInf(v, 1):
			return "Infinity"
		case math.IsInf(v, -1):
			return "-Infinity"
		}
		return floatText(v)
	}
	fail("object of type %s is not JSON serializable", typeName(v))
	return ""
}

func (w *jsonWriter) group(open, end byte, n, depth int, write func(int)) {
	w.b.WriteByte(open)
	for i := range n {
		if i > 0 {
			w.b.WriteString(w.item)
		}
		w.newline(depth + 1)
		write(i)
	}
	if n > 0 {
		w.newline(depth)
	}
	w.b.WriteByte(end)
}

func (w *jsonWriter) newline(depth int) {
	if !w.flat {
		w.r.fits(w.b.Len() + len(w.indent)*depth)
		w.b.WriteByte('\n')
		w.b.WriteString(strings.Repeat(w.indent, depth))
	}
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func (w *jsonWriter) text(s string) {
	w.b.WriteByte('"')
	for _, c := range s {
		escape, special := jsonEscapes[c]
		switch {
		case special:
			w.b.WriteString(escape)
		case c < ' ':
			fmt.Fprintf(&w.b, `\u%04x`, c)
		case c < utf8.RuneSelf && c != 0x7F || !w.ascii:
			w.b.WriteRune(c)
		case c == 0x7F || c >= 0xF0000: // the latter mark texts of users: see printable
			w.b.WriteRune(c)
		case c > 0xFFFF:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&w.b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&w.b, `\u%04x`, c)
		}
	}
	w.b.WriteByte('"')
}
