package jinja

import (
	"fmt"
	"strings"
	"time"
)

// globalFunctions are the names that every template knows.
var globalFunctions map[string]*function

func init() {
	globalFunctions = map[string]*function{}
	for name, call := range map[string]func(*run, passed) Value{
		"range": makeRange,
		"dict":  func(r *run, a passed) Value { return r.dict("dict", a) },
		"namespace": func(r *run, a passed) Value {
			ns := &namespace{NewDict()}
			d := r.dict("namespace", a)
			for i, key := range d.keys {
				ns.set(r.text(key), d.values[i])
			}
			return ns
		},
		"raise_exception": func(r *run, a passed) Value {
			fail("%w: %s", ErrRefused, r.text(must("raise_exception", "message", a.bind("raise_exception", "message")[0])))
			return nil
		},
		"strftime_now": func(r *run, a passed) Value {
			text, err := strftime(r.now(), stringOf("strftime_now", must("strftime_now", "format", a.bind("strftime_now", "format")[0])))
			if err != nil {
				fail("%w", err)
			}
			return text
		},
	} {
		globalFunctions[name] = &function{name, call}
	}
	for _, name := range []string{"cycler", "joiner", "lipsum"} {
		globalFunctions[name] = &function{name, func(*run, passed) Value {
			fail("the function %s is not supported", name)
			return nil
		}}
	}
}

// set sets an attribute of a namespace; transformers refuses those with an
// underscore.
func (n *namespace) set(name string, v Value) {
	if strings.HasPrefix(name, "_") {
		fail("chat templates cannot store underscore-prefixed attributes on a namespace, but got '%s'", name)
	}
	n.dict.set(name, v)
}

// dict is dict(mapping or pairs, key=value, ...).
func (r *run) dict(what string, a passed) *Dict {
	var from *Dict
	if len(a.positional) > 1 {
		fail("%s expected at most 1 argument, got %d", what, len(a.positional))
	}
	if len(a.positional) == 1 {
		if d, ok := a.positional[0].(*Dict); ok {
			from = d
		} else {
			from = NewDict()
			for _, pair := range r.items(a.positional[0]) {
				parts := r.items(pair)
				if len(parts) != 2 {
					fail("%s wants pairs, not sequences of %d", what, len(parts))
				}
				from.set(parts[0], parts[1])
			}
		}
	}
	return r.merged(from, a)
}

// merged copies a dict, nil for none, and adds named values.
func (r *run) merged(from *Dict, a passed) *Dict {
	d := NewDict()
	if from != nil {
		r.make(element * len(from.keys))
		for i, key := range from.keys {
			d.set(key, from.values[i])
		}
	}
	for i, name := range a.names {
		d.set(name, a.named[i])
	}
	return d
}

func makeRange(r *run, a passed) Value {
	if len(a.named) > 0 || len(a.positional) == 0 || len(a.positional) > 3 {
		fail("range takes 1 to 3 arguments")
	}
	start, stop, step := 0, wholeOf("range", a.positional[0]), 1
	if len(a.positional) > 1 {
		start, stop = stop, wholeOf("range", a.positional[1])
	}
	if len(a.positional) > 2 {
		step = wholeOf("range", a.positional[2])
	}
	if step == 0 {
		fail("range() arg 3 must not be zero")
	}
	var items []Value
	for n := start; step > 0 && n < stop || step < 0 && n > stop; n += step {
		if len(items) == maxRange {
			fail("a range has more than %d numbers", maxRange)
		}
		items = append(items, int64(n))
	}
	return r.list(rangeList, items)
}

var layouts = map[byte]string{'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05",
	'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'p': "PM", 'e': "_2", 'j': "002",
	'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05"}

// strftime formats a local time as Python does in the C locale. The time
// knows no zone there: %Z and %z are empty.
func strftime(t time.Time, format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		bare := format[i] == '-' && i+1 < len(format) // without leading zero
		if bare {
			i++
		}
		text := ""
		switch c := format[i]; c {
		case '%':
			text = "%"
		case 'n':
			text = "\n"
		case 't':
			text = "\t"
		case 'Z', 'z':
		case 'f':
			text = fmt.Sprintf("%06d", t.Nanosecond()/1000)
		case 'w':
			text = fmt.Sprint(int(t.Weekday()))
		case 'u':
			text = fmt.Sprint((int(t.Weekday())+6)%7 + 1)
		case 'V', 'G':
			year, week := t.ISOWeek()
			text = fmt.Sprintf("%02d", week)
			if c == 'G' {
				text = fmt.Sprint(year)
			}
		default:
			layout, ok := layouts[c]
			if !ok {
				return "", fmt.Errorf("strftime_now: %%%c is not supported", c)
			}
			text = t.Format(layout)
		}
		if bare {
			if text = strings.TrimLeft(text, "0 "); text == "" {
				text = "0"
			}
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
