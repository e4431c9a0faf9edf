package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Fields reads config.json and remembers what was asked for, so that what nobody asked for
// can be refused. A field that is null counts as absent. The first error sticks; reads
// after it give zero values.
type Fields struct {
	where string // for errors: "config.json", or a path inside it
	raw   map[string]json.RawMessage
	null  map[string]bool // fields that are there and null
	used  map[string]bool
	err   *error // shared with nested Fields
}

// ParseFields reads a JSON object; where names it in errors.
func ParseFields(where string, data []byte) (*Fields, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("%s is not a JSON object: %w", where, err)
	}
	return newFields(where, raw, new(error)), nil
}

func newFields(where string, raw map[string]json.RawMessage, err *error) *Fields {
	null := map[string]bool{}
	for name, v := range raw {
		if string(v) == "null" {
			delete(raw, name)
			null[name] = true
		}
	}
	return &Fields{where: where, raw: raw, null: null, used: map[string]bool{}, err: err}
}

// Err is the first error.
func (f *Fields) Err() error { return *f.err }

// Fail records an error about a field.
func (f *Fields) Fail(name, format string, args ...any) {
	if *f.err == nil {
		*f.err = fmt.Errorf("%s: field %q "+format, append([]any{f.where, name}, args...)...)
	}
}

// Has tells whether a field is there and not null.
func (f *Fields) Has(name string) bool {
	_, ok := f.raw[name]
	return ok
}

// Null tells whether a field is there and null, where that is not the default.
func (f *Fields) Null(name string) bool { return f.null[name] }

// Skip marks fields as understood that alter no result.
func (f *Fields) Skip(names ...string) {
	for _, name := range names {
		f.used[name] = true
	}
}

// get decodes a field into dst, marking it as used; false if absent or wrong.
func (f *Fields) get(name, kind string, dst any) bool {
	v, ok := f.raw[name]
	f.used[name] = true
	if !ok || *f.err != nil {
		return false
	}
	if json.Unmarshal(v, dst) != nil {
		f.Fail(name, "is %s, want %s", clip(v), kind)
		return false
	}
	return true
}

// Raw gives the JSON text of a field, for those of several kinds; nil if absent.
func (f *Fields) Raw(name string) json.RawMessage {
	f.used[name] = true
	return f.raw[name]
}

// SkipOff passes over unknown fields that are false or empty: options that are off.
func (f *Fields) SkipOff() {
	for name, v := range f.raw {
		if slices.Contains([]string{"false", "{}", "[]", `""`}, string(v)) {
			f.used[name] = true
		}
	}
}

// Int reads a required whole number.
func (f *Fields) Int(name string) int {
	if !f.Has(name) {
		f.Fail(name, "is missing")
	}
	return f.IntOr(name, 0)
}

// IntOr reads a whole number, or gives def if the field is absent.
func (f *Fields) IntOr(name string, def int) int {
	v := float64(def) // 64.0 is a whole number too
	if f.get(name, "a whole number", &v) && (v != float64(int32(v))) {
		f.Fail(name, "is %v, want a whole number", v)
		return 0
	}
	return int(v)
}

// IntOf reads a required whole number that goes by any of several names; where a file has
// two of them, they must agree.
func (f *Fields) IntOf(names ...string) int {
	first := ""
	for _, name := range names {
		switch {
		case !f.Has(name):
			f.Skip(name) // null
		case first == "":
			first = name
		case f.Int(name) != f.Int(first):
			f.Fail(name, "is %d, but %s is %d", f.Int(name), first, f.Int(first))
		}
	}
	if first == "" {
		first = names[0]
	}
	return f.Int(first)
}

// FloatOr reads a number.
func (f *Fields) FloatOr(name string, def float64) float64 {
	v := def
	f.get(name, "a number", &v)
	return v
}

// Factor reads a number that multiplies or divides something. Zero would mean "none" in a
// Config, which is not what it says.
func (f *Fields) Factor(name string, def float64) float64 {
	v := f.FloatOr(name, def)
	if v == 0 && f.Has(name) {
		f.Fail(name, "is 0, want another number")
	}
	return v
}

// BoolOr reads a boolean.
func (f *Fields) BoolOr(name string, def bool) bool {
	v := def
	f.get(name, "true or false", &v)
	return v
}

// StringOr reads a string.
func (f *Fields) StringOr(name, def string) string {
	v := def
	f.get(name, "a string", &v)
	return v
}

// Strings reads a list of strings; nil if absent.
func (f *Fields) Strings(name string) []string {
	var v []string
	f.get(name, "a list of strings", &v)
	return v
}

// Floats reads a list of numbers; nil if absent.
func (f *Fields) Floats(name string) []float32 {
	var v []float32
	f.get(name, "a list of numbers", &v)
	return v
}

// Object reads a nested object; nil if absent. Its errors are this object's errors.
func (f *Fields) Object(name string) *Fields {
	var v map[string]json.RawMessage
	if !f.get(name, "an object", &v) {
		return nil
	}
	return newFields(f.where+": "+name, v, f.err)
}

// Only refuses a field that is present with a value other than the allowed ones, given as
// JSON text: it is for switches whose "off" is all that is supported.
func (f *Fields) Only(name string, allowed ...string) {
	f.used[name] = true
	v, ok := f.raw[name]
	if ok && !slices.Contains(allowed, string(v)) {
		f.Fail(name, "is %s, which is not supported: only %s is", clip(v), strings.Join(allowed, " or "))
	}
}

// Rest refuses every field that was neither read nor skipped.
func (f *Fields) Rest(family string) {
	var unknown []string
	for name := range f.raw {
		if !f.used[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return
	}
	slices.Sort(unknown)
	f.Fail(unknown[0], "is %s: the %s family does not know it, and it may alter results", clip(f.raw[unknown[0]]), family)
}

// clip shortens a value for an error line.
func clip(v []byte) string {
	const limit = 60
	s := strings.Join(strings.Fields(string(v)), " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return s
}
