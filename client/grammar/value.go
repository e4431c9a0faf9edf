package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	maxSchema  = 128 << 10 // bytes of a schema
	maxNesting = 64        // of its values
)

// value is JSON as it was written: the order of an object's members is kept.
type value struct {
	kind    byte // { [ " n t f 0: object, list, text, number, true, false, null
	text    string
	items   []*value
	members []member
}

type member struct {
	name string
	v    *value
}

// get is a member of an object, nil if there is none.
func (v *value) get(name string) *value {
	if v.kind == '{' {
		for i := range v.members {
			if v.members[i].name == name {
				return v.members[i].v
			}
		}
	}
	return nil
}

// with is an object with a member set to another value.
func (v *value) with(name string, to *value) *value {
	out := v.without(name)
	out.members = append(out.members, member{name, to})
	return out
}

// without is an object without a member.
func (v *value) without(names ...string) *value {
	out := &value{kind: '{'}
next:
	for _, m := range v.members {
		for _, name := range names {
			if m.name == name {
				continue next
			}
		}
		out.members = append(out.members, m)
	}
	return out
}

// readValue reads one JSON value.
func readValue(raw []byte) (*value, error) {
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("it has %d bytes: want at most %d", len(raw), maxSchema)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := nextValue(d, 0)
	if err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is not valid JSON: something stands behind it")
	}
	return v, nil
}

func nextValue(d *json.Decoder, depth int) (*value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case string:
		return &value{kind: '"', text: t}, nil
	case json.Number:
		return &value{kind: 'n', text: t.String()}, nil
	case bool:
		if t {
			return &value{kind: 't'}, nil
		}
		return &value{kind: 'f'}, nil
	case nil:
		return &value{kind: '0'}, nil
	}
	if depth >= maxNesting {
		return nil, fmt.Errorf("it is nested more than %d deep", maxNesting)
	}
	v := &value{kind: '['}
	object := t == json.Delim('{')
	if object {
		v.kind = '{'
	}
	seen := map[string]int{}
	for d.More() {
		name := ""
		if object {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name = key.(string)
		}
		kid, err := nextValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		if !object {
			v.items = append(v.items, kid)
			continue
		}
		if at, twice := seen[name]; twice { // the last one counts, as everywhere
			v.members[at].v = kid
			continue
		}
		seen[name] = len(v.members)
		v.members = append(v.members, member{name, kid})
	}
	_, err = d.Token()
	return v, err
}

// write spells a value in the one way that a grammar admits of it.
func (v *value) write(b *strings.Builder) {
	switch v.kind {
	case '"':
		b.WriteString(`"` + jsonText(v.text) + `"`)
	case 'n':
		b.WriteString(v.text)
	case 't':
		b.WriteString("true")
	case 'f':
		b.WriteString("false")
	case '0':
		b.WriteString("null")
	case '[':
		b.WriteByte('[')
		for i, kid := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			kid.write(b)
		}
		b.WriteByte(']')
	case '{':
		b.WriteByte('{')
		for i, m := range v.members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`"` + jsonText(m.name) + `":`)
			m.v.write(b)
		}
		b.WriteByte('}')
	}
}

// String is a value as JSON.
func (v *value) String() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}
