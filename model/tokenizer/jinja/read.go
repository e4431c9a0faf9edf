package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxValues is how many values a [Reader] reads in all, the keys of objects counted too.
// Each takes some 100 bytes at worst, so that a megabyte of "[[],[],..." would take a
// hundred times what was sent. The tools of a large application have some 10,000.
const MaxValues = 1 << 17

// Reader reads the JSON of one conversation. All that it reads has one budget, of
// [MaxValues] values, and may be nested 64 deep; what exceeds either is refused before it
// takes memory. The zero Reader is ready. Not for concurrent use.
type Reader struct{ values int }

// Read reads one JSON text; the keys of objects keep their order. Numbers with a point or
// an exponent are floats, as in Python. What is no UTF-8 in a string is replaced.
func (r *Reader) Read(data []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := r.value(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the JSON value")
	}
	return v, nil
}

// count counts a value that is about to be read.
func (r *Reader) count() error {
	if r.values++; r.values > MaxValues {
		return fmt.Errorf("more than %d JSON values in one conversation: send fewer or smaller tools, calls and variables", MaxValues)
	}
	return nil
}

func (r *Reader) value(d *json.Decoder, depth int) (Value, error) {
	if depth > maxDeep {
		return nil, fmt.Errorf("JSON is nested more than %d deep", maxDeep)
	}
	if err := r.count(); err != nil {
		return nil, err
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return r.list(d, depth)
		}
		return r.dict(d, depth)
	case json.Number:
		if strings.ContainsAny(string(t), ".eE") {
			return t.Float64()
		}
		return t.Int64()
	}
	return t, nil // nil, bool or string
}

func (r *Reader) list(d *json.Decoder, depth int) (Value, error) {
	list := NewList()
	for d.More() {
		v, err := r.value(d, depth+1)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, v)
	}
	_, err := d.Token()
	return list, err
}

func (r *Reader) dict(d *json.Decoder, depth int) (Value, error) {
	dict := NewDict()
	for d.More() {
		if err := r.count(); err != nil {
			return nil, err
		}
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := r.value(d, depth+1)
		if err != nil {
			return nil, err
		}
		dict.Set(key.(string), v)
	}
	_, err := d.Token()
	return dict, err
}

// EachString calls visit with every string in v, keys of dicts too.
func EachString(v Value, visit func(string)) {
	switch v := v.(type) {
	case string:
		visit(v)
	case *List:
		for _, item := range v.Items {
			EachString(item, visit)
		}
	case *Dict:
		for i, key := range v.keys {
			EachString(key, visit)
			EachString(v.values[i], visit)
		}
	}
}

// MapStrings copies v with every string in it, keys of dicts too, replaced by
// what change makes of it.
func MapStrings(v Value, change func(string) string) Value {
	switch v := v.(type) {
	case string:
		return change(v)
	case *List:
		list := &List{Items: make([]Value, len(v.Items)), kind: v.kind}
		for i, item := range v.Items {
			list.Items[i] = MapStrings(item, change)
		}
		return list
	case *Dict:
		dict := NewDict()
		for i, key := range v.keys {
			dict.set(MapStrings(key, change), MapStrings(v.values[i], change))
		}
		return dict
	}
	return v
}
