package petals

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"whorl/api"
	"whorl/client/sample"
)

// fields are those of a legacy request, from JSON or a form. Clients send numbers and
// booleans as strings, lists as single strings and nothing as null or "", so each is read
// as what it is asked for as. The first error sticks; names never asked for are unknown.
type fields struct {
	values map[string]any
	asked  map[string]bool
	err    error
}

// fieldsOfJSON reads one JSON object and nothing after it.
func fieldsOfJSON(b []byte) (*fields, error) {
	if err := api.CheckText(b); err != nil {
		return nil, err
	}
	if err := api.CheckSize(b); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // seeds do not fit a float
	var values map[string]any
	if err := d.Decode(&values); err != nil {
		return nil, api.Invalid("", "not a JSON object: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, api.Invalid("", "more than one JSON object")
	}
	if values == nil {
		return nil, api.Invalid("", "not a JSON object: null")
	}
	return &fields{values: values, asked: map[string]bool{}}, nil
}

// fieldsOfForm takes the values of a query and of a form; a name given several times is a
// list.
func fieldsOfForm(forms ...url.Values) *fields {
	f := &fields{values: map[string]any{}, asked: map[string]bool{}}
	for _, form := range forms {
		for name, vs := range form {
			if len(vs) == 1 {
				f.values[name] = vs[0]
				continue
			}
			var list []any
			for _, v := range vs {
				list = append(list, v)
			}
			f.values[name] = list
		}
	}
	return f
}

// add takes over what f does not have.
func (f *fields) add(g *fields) {
	for name, v := range g.values {
		if _, ok := f.values[name]; !ok {
			f.values[name] = v
		}
	}
}

func (f *fields) fail(name, format string, a ...any) {
	if f.err == nil {
		f.err = api.Invalid(name, "%s %s", name, fmt.Sprintf(format, a...))
	}
}

// get is a field's value, nil if it is absent.
func (f *fields) get(name string) any {
	f.asked[name] = true
	if v := f.values[name]; v != "" {
		return v
	}
	return nil
}

// text reads a string of at most limit bytes; "" if absent.
func (f *fields) text(name string, limit int) string {
	switch v := f.get(name).(type) {
	case nil:
	case string:
		if !utf8.ValidString(v) { // of a form
			f.fail(name, "is not UTF-8")
			return ""
		}
		if limit == 0 || len(v) <= limit {
			return v
		}
		f.fail(name, "is longer than %d bytes", limit)
	default:
		f.fail(name, "is %s: want a text", kind(v))
	}
	return ""
}

// texts reads a list of strings, or one string.
func (f *fields) texts(name string, most, limit int) []string {
	v := f.get(name)
	list, ok := v.([]any)
	if !ok && v != nil {
		list = []any{v}
	}
	if len(list) > most {
		f.fail(name, "has %d entries: want at most %d", len(list), most)
		return nil
	}
	var out []string
	for _, e := range list {
		s, ok := e.(string)
		switch {
		case !ok:
			f.fail(name, "holds %s: want texts", kind(e))
		case !utf8.ValidString(s):
			f.fail(name, "holds a text that is not UTF-8")
		case len(s) > limit:
			f.fail(name, "holds a text longer than %d bytes", limit)
		case s != "":
			out = append(out, s)
		}
	}
	return out
}

// number reads a finite number from lo to hi.
func (f *fields) number(name string, lo, hi, absent float64) (n float64, given bool) {
	var text string
	switch v := f.get(name).(type) {
	case nil:
		return absent, false
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	default:
		f.fail(name, "is %s: want a number", kind(v))
		return absent, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < lo || n > hi {
		want := "want a number"
		if !math.IsInf(lo, 0) {
			want += " from " + api.Plain(lo) + " to " + api.Plain(hi)
		}
		f.fail(name, "is %s: %s", strconv.Quote(api.Clip(text)), want)
		return absent, false
	}
	return n, true
}

// integer reads a whole number from lo to hi.
func (f *fields) integer(name string, lo, hi, absent int) (n int, given bool) {
	x, given := f.number(name, float64(lo), float64(hi), float64(absent))
	if x != math.Trunc(x) {
		f.fail(name, "is %v: want a whole number", x)
		return absent, false
	}
	return int(x), given
}

// seed reads any whole number of 64 bits.
func (f *fields) seed(name string) *int64 {
	text := ""
	switch v := f.get(name).(type) {
	case nil:
		return nil
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	default:
		f.fail(name, "is %s: want a whole number", kind(v))
		return nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return &n
	}
	u, err := strconv.ParseUint(text, 10, 64)
	if x, asFloat := strconv.ParseFloat(text, 64); err != nil && asFloat == nil && x == math.Trunc(x) && math.Abs(x) <= 1<<53 {
		n := int64(x) // written as 7.0
		return &n
	}
	if err != nil {
		f.fail(name, "is %s: want a whole number of 64 bits", strconv.Quote(api.Clip(text)))
		return nil
	}
	n := int64(u)
	return &n
}

// flag reads a boolean.
func (f *fields) flag(name string, absent bool) (on, given bool) {
	switch v := f.get(name).(type) {
	case nil:
		return absent, false
	case bool:
		return v, true
	case json.Number:
		n, err := v.Float64()
		return err == nil && n != 0, true
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "1", "true", "yes", "on":
			return true, true
		case "0", "false", "no", "off":
			return false, true
		}
		f.fail(name, "is %s: want 0 or 1", strconv.Quote(api.Clip(v)))
	default:
		f.fail(name, "is %s: want 0 or 1", kind(v))
	}
	return absent, false
}

// into reads the fields that a struct of package sample names in its tags; those that are
// absent stay as they are. Which values mean something is for that package to say.
func (f *fields) into(v any) {
	s := reflect.ValueOf(v).Elem()
	for i := range s.NumField() {
		name, field := s.Type().Field(i).Tag.Get("json"), s.Field(i)
		switch v := field.Addr().Interface().(type) {
		case *float64:
			*v, _ = f.number(name, math.Inf(-1), math.Inf(1), *v)
		case *string:
			*v = f.text(name, 0)
		case *int:
			*v, _ = f.integer(name, -maxPositions, maxPositions, *v)
		case *sample.Early:
			f.early(name, v)
		case json.Unmarshaler:
			f.json(name, v)
		default:
			if name != "-" {
				panic("fields: " + name + " has a type that is not read")
			}
		}
	}
}

// json reads a field that knows its own form; in a form it is JSON as text.
func (f *fields) json(name string, into json.Unmarshaler) {
	v := f.get(name)
	if v == nil {
		return
	}
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			f.fail(name, "is %s", kind(v))
			return
		}
		text = string(b)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		f.fail(name, "is wrong: %s", api.Clip(api.OneLine(err.Error())))
	}
}

// refuse refuses the fields of transformers that would change the answer and are not done here.
func (f *fields) refuse() {
	for _, field := range sample.LibraryFields {
		if field.Does != sample.Refused {
			continue
		}
		asks := false
		switch v := f.get(field.Name).(type) {
		case nil:
		case bool:
			asks = v
		case json.Number:
			n, err := v.Float64()
			asks = err != nil || !sample.Neutral(field.Name, n)
		case string:
			n, err := strconv.ParseFloat(v, 64)
			off, isBool := map[string]bool{"false": true, "none": true, "null": true, "true": false}[strings.ToLower(v)]
			asks = !(isBool && off || err == nil && sample.Neutral(field.Name, n))
		case []any:
			asks = len(v) > 0
		default:
			asks = true
		}
		if asks && f.err == nil {
			f.err = api.Unsupported(field.Name, "%s is not supported (%s): leave it out", field.Name, strings.ReplaceAll(field.How, "`", ""))
		}
	}
}

// early reads a boolean or one of its texts.
func (f *fields) early(name string, into *sample.Early) {
	v := f.get(name)
	if v == nil {
		return
	}
	e, err := sample.ParseEarly(fmt.Sprint(v))
	if *into = e; err != nil && f.err == nil {
		f.err = api.FieldError(err, nil)
	}
}

// unknown are the names nobody asked for.
func (f *fields) unknown() []string {
	var out []string
	for name := range f.values {
		if !f.asked[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// kind says what a JSON value is.
func kind(v any) string {
	switch v.(type) {
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "null"
}
