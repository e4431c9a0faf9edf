package grammar

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
)

// merge is a schema that admits what both of two admit.
func (s *schemas) merge(a, b *value, path string) (*value, error) {
	if s.merges++; s.merges > maxMerges {
		return nil, &Refusal{path, "allOf", fmt.Sprintf("schemas have to be joined more than %d times", maxMerges)}
	}
	a, err := s.resolved(a, path)
	if err != nil {
		return nil, err
	}
	if b, err = s.resolved(b, path); err != nil {
		return nil, err
	}
	switch {
	case a.kind == 'f' || b.kind == 't':
		return a, nil
	case b.kind == 'f' || a.kind == 't':
		return b, nil
	case a.kind != '{' || b.kind != '{':
		return nil, &Refusal{path, "allOf", "a part is neither an object nor a boolean"}
	}
	if parts := b.get("allOf"); parts != nil && a.get("allOf") == nil {
		a, b = b, a
	}
	if parts := b.get("allOf"); parts != nil { // both have some: one list
		all := &value{kind: '[', items: slices.Concat(a.get("allOf").items, parts.items)}
		a, b = a.with("allOf", all), b.without("allOf")
	}
	if listed(a) && listed(b) && (a.get("prefixItems") != nil || b.get("prefixItems") != nil || a.get("additionalItems") != nil || b.get("additionalItems") != nil) {
		return nil, &Refusal{path + "/prefixItems", "prefixItems", "beside items of a schema that holds together with it, it is not supported"}
	}
	out := &value{kind: '{', members: slices.Clone(a.members)}
	for _, m := range b.members {
		mine := a.get(m.name)
		if m.name == "properties" || m.name == "additionalProperties" || m.name == "required" {
			continue // below
		}
		if mine == nil {
			out = out.with(m.name, m.v)
			continue
		}
		if !asserts(m.name) {
			continue // a note: the first one stays
		}
		both, err := s.mergeKeyword(m.name, mine, m.v, path)
		if err != nil {
			return nil, err
		}
		out = out.with(m.name, both)
	}
	return s.mergeProperties(out, a, b, path)
}

// listed tells whether a schema speaks of the items of a list.
func listed(v *value) bool {
	return v.get("items") != nil || v.get("prefixItems") != nil || v.get("additionalItems") != nil
}

// mergeKeyword joins two values of one keyword.
func (s *schemas) mergeKeyword(name string, a, b *value, path string) (*value, error) {
	if a.String() == b.String() {
		return a, nil
	}
	switch name {
	case "type":
		ofA, err := typesOf(&value{kind: '{', members: []member{{"type", a}}})
		if err != nil {
			return nil, &Refusal{path + "/type", "type", err.Error()}
		}
		ofB, err := typesOf(&value{kind: '{', members: []member{{"type", b}}})
		if err != nil {
			return nil, &Refusal{path + "/type", "type", err.Error()}
		}
		both := &value{kind: '['}
		for _, t := range append(slices.Clone(allTypes), "integer") {
			has := func(list []string) bool {
				return slices.Contains(list, t) || t == "integer" && slices.Contains(list, "number")
			}
			if has(ofA) && has(ofB) {
				both.items = append(both.items, &value{kind: '"', text: t})
			}
		}
		return both, nil
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		return larger(a, b, 1), nil
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		return larger(a, b, -1), nil
	case "items":
		return s.merge(a, b, path+"/items")
	case "enum":
		if a.kind == '[' && b.kind == '[' {
			return &value{kind: '[', items: slices.DeleteFunc(slices.Clone(a.items), func(x *value) bool {
				return !slices.ContainsFunc(b.items, func(y *value) bool { return x.String() == y.String() })
			})}, nil
		}
	}
	return nil, &Refusal{path + "/" + name, name, "it is there twice in schemas that hold together (allOf, or beside $ref or anyOf), and the two cannot be joined"}
}

// larger is the larger of two numbers, or with sign -1 the smaller one.
func larger(a, b *value, sign int) *value {
	x, okA := new(big.Rat).SetString(short(a))
	y, okB := new(big.Rat).SetString(short(b))
	if okA && okB && y.Cmp(x)*sign > 0 || !okA {
		return b
	}
	return a
}

// short is a number's text, if reading it is little work.
func short(v *value) string {
	if _, err := readBound(json.Number(v.text), false); v.kind != 'n' || err != nil {
		return ""
	}
	return v.text
}

// mergeProperties joins what two schemas say of properties into out.
func (s *schemas) mergeProperties(out, a, b *value, path string) (*value, error) {
	list := func(v *value, name string) *value {
		if x := v.get(name); x != nil {
			return x
		}
		return &value{kind: '{'}
	}
	properties := &value{kind: '{'}
	others := func(v *value) *value { // what v says of a property that it does not name
		if x := v.get("additionalProperties"); x != nil {
			return x
		}
		return &value{kind: 't'}
	}
	for i, from := range []*value{a, b} {
		other := []*value{b, a}[i]
		for _, m := range list(from, "properties").members {
			if properties.get(m.name) != nil {
				continue
			}
			theirs := list(other, "properties").get(m.name)
			if theirs == nil {
				theirs = others(other)
			}
			both := m.v
			if theirs.kind != 't' {
				var err error
				if both, err = s.merge(m.v, theirs, path+"/properties/"+m.name); err != nil {
					return nil, err
				}
			}
			properties.members = append(properties.members, member{m.name, both})
		}
	}
	if len(properties.members) > 0 {
		out = out.with("properties", properties)
	}
	mine, theirs := a.get("additionalProperties"), b.get("additionalProperties")
	switch {
	case mine == nil && theirs != nil:
		out = out.with("additionalProperties", theirs)
	case mine != nil && theirs != nil:
		both, err := s.merge(mine, theirs, path+"/additionalProperties")
		if err != nil {
			return nil, err
		}
		out = out.with("additionalProperties", both)
	}
	required := &value{kind: '['}
	for _, from := range []*value{a, b} {
		x := from.get("required")
		if x == nil {
			continue
		}
		for _, name := range x.items {
			if !slices.ContainsFunc(required.items, func(y *value) bool { return y.text == name.text }) {
				required.items = append(required.items, name)
			}
		}
	}
	if len(required.items) > 0 {
		out = out.with("required", required)
	}
	return out, nil
}
