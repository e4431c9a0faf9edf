package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// pythonFunctions are the filters and methods of a template that are done
// here: with the meaning they have in Python, where the library's differs,
// and within the budget, where they can make much of little.
func (b *budget) pythonFunctions() map[string]function {
	f := map[string]function{
		"trim":    b.trimFilter,
		"replace": b.replace,
		"join":    b.join,
		"indent":  b.indent,
		"int":     b.toInt,
		"tojson":  b.toJSON,

		"str_strip":   stripMethod(strings.TrimFunc),
		"str_lstrip":  stripMethod(strings.TrimLeftFunc),
		"str_rstrip":  stripMethod(strings.TrimRightFunc),
		"str_replace": onString(b.replace),
		"str_split":   onString(b.split),
	}
	reserved := make(map[string]function, len(f))
	for name, fn := range f {
		reserved[reservedName+name] = fn
	}
	return reserved
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// text is a value as a filter for text sees it.
func text(v jinja.Value) string {
	switch {
	case v.IsUndefined():
		return ""
	case v.IsString():
		return v.AsString()
	case v.IsFloat():
		return pythonFloat(v.AsFloat())
	}
	return v.String()
}

// onString refuses what is not a string, as calling a method on it would.
func onString(fn function) function {
	return func(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
		if len(args) == 0 || !args[0].IsString() {
			return jinja.Undefined(), errors.New("a method of strings is called on something else")
		}
		return fn(args, kwargs)
	}
}

func stripMethod(trim func(string, func(rune) bool) string) function {
	return onString(func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		cut := pythonSpace
		if len(args) > 1 && args[1].IsString() {
			set := args[1].AsString()
			cut = func(r rune) bool { return strings.ContainsRune(set, r) }
		}
		return jinja.NewString(trim(args[0].AsString(), cut)), nil
	})
}

func (b *budget) trimFilter(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), errors.New("trim of nothing")
	}
	args = slices.Clone(args)
	args[0] = jinja.NewString(text(args[0]))
	if chars, ok := kwargs["chars"]; ok {
		args = append(args, chars)
	}
	return stripMethod(strings.TrimFunc)(args, nil)
}

func (b *budget) replace(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) < 3 {
		return jinja.Undefined(), errors.New("replace needs two texts")
	}
	s, old, with := text(args[0]), text(args[1]), text(args[2])
	count := -1
	if len(args) > 3 && args[3].IsInt() {
		count = int(args[3].AsInt())
	}
	found := strings.Count(s, old)
	if count >= 0 {
		found = min(found, count)
	}
	if found > 0 && len(with) > 0 && found > (b.size-min(len(s), b.size))/len(with) {
		return jinja.Undefined(), fmt.Errorf("replace makes more than %d bytes", b.size)
	}
	return jinja.NewString(strings.Replace(s, old, with, count)), nil
}

func (b *budget) split(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	limit := -1
	if n, ok := kwargs["maxsplit"]; ok && n.IsInt() {
		limit = int(n.AsInt())
	}
	if len(args) > 2 && args[2].IsInt() {
		limit = int(args[2].AsInt())
	}
	if sep, ok := kwargs["sep"]; ok && len(args) < 2 {
		args = append(slices.Clone(args), sep)
	}
	s := args[0].AsString()
	var parts []string
	switch {
	case len(args) < 2 || args[1].IsNone():
		if limit >= 0 {
			return jinja.Undefined(), errors.New("split at white space with a limit is not supported")
		}
		parts = strings.FieldsFunc(s, pythonSpace)
	case !args[1].IsString() || args[1].AsString() == "":
		return jinja.Undefined(), errors.New("split needs a separator")
	case limit >= 0:
		parts = strings.SplitN(s, args[1].AsString(), limit+1)
	default:
		parts = strings.Split(s, args[1].AsString())
	}
	items := make([]jinja.Value, len(parts))
	for i, p := range parts {
		items[i] = jinja.NewString(p)
	}
	return jinja.NewList(items), nil
}

func (b *budget) join(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), errors.New("join of nothing")
	}
	sep, attribute := "", ""
	if len(args) > 1 {
		sep = text(args[1])
	} else if d, ok := kwargs["d"]; ok {
		sep = text(d)
	}
	if a, ok := kwargs["attribute"]; ok {
		attribute = text(a)
	}
	var items []string
	switch v := args[0]; {
	case v.IsList():
		for _, item := range v.AsList().Items {
			if attribute != "" && item.IsDict() {
				item, _ = item.AsDict().Get(attribute)
			}
			items = append(items, text(item))
		}
	case v.IsString():
		items = strings.Split(v.AsString(), "")
	case v.IsDict():
		items = v.AsDict().OrderedKeys()
	}
	total := 0
	for _, item := range items {
		if total += len(item) + len(sep); total > b.size {
			return jinja.Undefined(), fmt.Errorf("join makes more than %d bytes", b.size)
		}
	}
	return jinja.NewString(strings.Join(items, sep)), nil
}

func (b *budget) indent(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	option := func(i int, name string) jinja.Value {
		if len(args) > i {
			return args[i]
		}
		return kwargs[name]
	}
	if len(args) == 0 {
		return jinja.Undefined(), errors.New("indent of nothing")
	}
	width := strings.Repeat(" ", 4)
	switch w := option(1, "width"); {
	case w.IsString():
		width = w.AsString()
	case w.IsInt():
		width = strings.Repeat(" ", int(min(max(w.AsInt(), 0), maxRepeat)))
	}
	lines := strings.Split(text(args[0]), "\n")
	if len(lines) > b.size/(len(width)+1) {
		return jinja.Undefined(), fmt.Errorf("indent makes more than %d bytes", b.size)
	}
	first, blank := option(2, "first").IsTruthy(), option(3, "blank").IsTruthy()
	for i, line := range lines {
		if i == 0 && first || i > 0 && (blank || line != "") {
			lines[i] = width + line
		}
	}
	return jinja.NewString(strings.Join(lines, "\n")), nil
}

func (b *budget) toInt(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), errors.New("int of nothing")
	}
	fallback := jinja.NewInt(0)
	if len(args) > 1 {
		fallback = args[1]
	}
	number := math.NaN()
	switch v := args[0]; {
	case v.IsInt():
		number = float64(v.AsInt())
	case v.IsFloat():
		number = math.Trunc(v.AsFloat())
	case v.IsBool() && v.AsBool():
		number = 1
	case v.IsBool():
		number = 0
	case v.IsString():
		if n, err := strconv.ParseFloat(strings.TrimFunc(v.AsString(), pythonSpace), 64); err == nil {
			number = math.Trunc(n)
		}
	}
	switch {
	case math.IsNaN(number):
		return fallback, nil
	case math.Abs(number) > maxNumber:
		return jinja.Undefined(), fmt.Errorf("the number %g is too large", number)
	}
	return jinja.NewInt(int64(number)), nil
}

// pythonFloat prints a number as Python does.
func pythonFloat(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e16 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// toJSON is json.dumps(v, ensure_ascii=False, indent=...).
func (b *budget) toJSON(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), errors.New("tojson of nothing")
	}
	if _, err := b.measure(args[0], 0, true); err != nil {
		return jinja.Undefined(), err
	}
	w := jsonWriter{indent: -1, item: ", ", key: ": ", sorted: kwargs["sort_keys"].IsTruthy()}
	indent := kwargs["indent"]
	if len(args) > 1 {
		indent = args[1]
	}
	if indent.IsInt() {
		w.indent, w.item = int(min(max(indent.AsInt(), 0), maxDeep)), ","
	}
	if s := kwargs["separators"]; s.IsList() && s.AsList().Len() == 2 {
		w.item, w.key = text(s.AsList().Get(0)), text(s.AsList().Get(1))
	}
	if err := w.value(args[0], 0); err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewString(w.b.String()), nil
}

type jsonWriter struct {
	b         strings.Builder
	indent    int // -1: all on one line
	item, key string
	sorted    bool
}

func (w *jsonWriter) value(v jinja.Value, depth int) error {
	switch {
	case v.IsNone():
		w.b.WriteString("null")
	case v.IsBool():
		w.b.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		w.b.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		w.b.WriteString(pythonFloat(v.AsFloat()))
	case v.IsString():
		w.text(v.AsString())
	case v.IsList():
		items := v.AsList().Items
		return w.group('[', ']', len(items), depth, func(i int) error { return w.value(items[i], depth+1) })
	case v.IsDict():
		d := v.AsDict()
		keys := d.OrderedKeys()
		if w.sorted {
			slices.Sort(keys)
		}
		return w.group('{', '}', len(keys), depth, func(i int) error {
			w.text(keys[i])
			w.b.WriteString(w.key)
			return w.value(d.Data[keys[i]], depth+1)
		})
	default:
		return errors.New("tojson of something undefined, or of a function")
	}
	return nil
}

func (w *jsonWriter) group(open, end byte, n, depth int, write func(int) error) error {
	w.b.WriteByte(open)
	for i := range n {
		if i > 0 {
			w.b.WriteString(w.item)
		}
		w.newline(depth + 1)
		if err := write(i); err != nil {
			return err
		}
	}
	if n > 0 {
		w.newline(depth)
	}
	w.b.WriteByte(end)
	return nil
}

func (w *jsonWriter) newline(depth int) {
	if w.indent >= 0 {
		w.b.WriteByte('\n')
		w.b.WriteString(strings.Repeat(" ", w.indent*depth))
	}
}

// text writes a string as Python does: like encoding/json, but only what must
// be escaped is.
func (w *jsonWriter) text(s string) {
	w.b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.b.WriteByte('\\')
			w.b.WriteRune(r)
		case r < ' ':
			escaped, _ := json.Marshal(string(r)) // \n, \t, \u001f: the same in both
			w.b.Write(escaped[1 : len(escaped)-1])
		case r == utf8.RuneError:
			w.b.WriteString("\uFFFD")
		default:
			w.b.WriteRune(r)
		}
	}
	w.b.WriteByte('"')
}

// strftime formats a time as Python does in the C locale.
func strftime(t time.Time, format string) (string, error) {
	layouts := map[byte]string{'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05",
		'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'p': "PM", 'e': "_2", 'j': "002",
		'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04", 'Z': "MST", 'z': "-0700"}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		if format[i] == '-' && i+1 < len(format) { // without leading zero
			i++
			layout, ok := layouts[format[i]]
			if !ok {
				return "", fmt.Errorf("strftime_now: %%-%c is not supported", format[i])
			}
			b.WriteString(strings.TrimLeft(t.Format(layout), "0 "))
			continue
		}
		layout, ok := layouts[format[i]]
		switch {
		case format[i] == '%':
			b.WriteByte('%')
		case !ok:
			return "", fmt.Errorf("strftime_now: %%%c is not supported", format[i])
		default:
			b.WriteString(t.Format(layout))
		}
	}
	return b.String(), nil
}
