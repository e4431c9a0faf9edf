package grammar

import (
	"fmt"
	"slices"
)

// property is one that an object may have.
type property struct {
	name     string
	value    *expr
	required bool
}

// object is an object that a schema admits.
func (s *schemas) object(v *value, path string) (*expr, error) {
	declared, extra := v.get("properties"), v.get("additionalProperties")
	if declared != nil && declared.kind != '{' {
		return nil, &Refusal{path + "/properties", "properties", "it is no object"}
	}
	if extra == nil {
		if extra = (&value{kind: 't'}); declared != nil {
			extra = &value{kind: 'f'}
		}
	}
	required := map[string]bool{}
	var order []string
	if list := v.get("required"); list != nil {
		for _, name := range list.items {
			if name.kind == '"' && !required[name.text] {
				required[name.text] = true
				order = append(order, name.text)
			}
		}
	}
	var list []property
	add := func(name string, schema *value, at string) error {
		e, err := s.of(schema, at)
		list = append(list, property{name, e, required[name]})
		delete(required, name)
		return err
	}
	if declared != nil {
		for _, m := range declared.members {
			if err := add(m.name, m.v, path+"/properties/"+m.name); err != nil {
				return nil, err
			}
		}
	}
	closed := v.get("additionalProperties") != nil && extra.kind == 'f'
	for _, name := range order {
		if !required[name] {
			continue
		}
		schema := extra
		if !closed && extra.kind == 'f' { // nobody said that there are no others
			schema = &value{kind: 't'}
		}
		if err := add(name, schema, path+"/additionalProperties"); err != nil {
			return nil, err
		}
	}
	var others *expr
	if extra.kind != 'f' {
		e, err := s.of(extra, path+"/additionalProperties")
		if err != nil {
			return nil, err
		}
		key, err := s.otherKey(list, path)
		if err != nil {
			return nil, err
		}
		others = seq(key, colon, e)
	}
	return s.members(v, list, others, path)
}

// members puts the properties of an object in a row, and others behind them if there may be some.
func (s *schemas) members(v *value, list []property, others *expr, path string) (*expr, error) {
	needed := 0
	for _, p := range list {
		if p.required {
			needed++
		}
	}
	least, err := count(v, "minProperties", 0, path)
	if err != nil {
		return nil, err
	}
	if least > needed {
		return nil, &Refusal{path + "/minProperties", "minProperties", "only as many as are required are supported"}
	}
	most, err := count(v, "maxProperties", -1, path)
	if err != nil {
		return nil, err
	}
	if most >= 0 && most < len(list) || most > maxRepeat {
		return nil, &Refusal{path + "/maxProperties", "maxProperties", "only as many as there are properties, or more, are supported"}
	}
	if most >= 0 {
		most -= len(list)
	}
	next := func(e *expr) *expr { return seq(text(","), s.space(), e) }
	pair := func(p property) *expr { return seq(text(`"`+jsonText(p.name)+`"`), colon, p.value) }

	// behind[i] is what may stand behind one of the first i properties.
	end := nothing
	if others != nil {
		end = repeat(next(others), 0, most)
	}
	behind := make([]*expr, len(list)+1)
	behind[len(list)] = end
	for i := len(list) - 1; i > 0; i-- {
		e := next(pair(list[i]))
		if !list[i].required {
			e = maybe(e)
		}
		rule, err := s.newRule(seq(e, behind[i+1]))
		if err != nil {
			return nil, err
		}
		behind[i] = call(rule)
	}
	var begins []*expr // what the object begins with
	for i, p := range list {
		begins = append(begins, seq(pair(p), behind[i+1]))
		if p.required {
			break
		}
	}
	if needed == 0 {
		if others != nil && most != 0 {
			more := -1
			if most > 0 {
				more = most - 1
			}
			begins = append(begins, seq(others, repeat(next(others), 0, more)))
		}
		return alt(seq(text("{"), s.space(), text("}")), seq(text("{"), s.space(), alt(begins...), s.space(), text("}"))), nil
	}
	return seq(text("{"), s.space(), alt(begins...), s.space(), text("}")), nil
}

// otherKey is the name of a property that a schema does not name.
func (s *schemas) otherKey(list []property, path string) (*expr, error) {
	if len(list) == 0 {
		return s.anyText(), nil
	}
	var names [][]rune
	size := 0
	for _, p := range list {
		names = append(names, []rune(p.name))
		size += len(p.name)
	}
	if size > maxNames {
		return nil, &Refusal{path + "/additionalProperties", "additionalProperties", fmt.Sprintf("the names of properties have more than %d bytes together", maxNames)}
	}
	free := s.share("key", func() *expr { return seq(repeat(jsonClass(anyRune), 0, -1), text(`"`)) })
	return seq(text(`"`), except(names, free)), nil
}

// except is the rest of a name, with its quote, that is none of some.
func except(names [][]rune, free *expr) *expr {
	others := anyRune
	var kids []*expr
	byRune := map[rune][][]rune{}
	taken := false
	for _, name := range names {
		if len(name) == 0 {
			taken = true
			continue
		}
		if byRune[name[0]] == nil {
			others = without(others, name[0])
		}
		byRune[name[0]] = append(byRune[name[0]], name[1:])
	}
	if !taken {
		kids = append(kids, text(`"`))
	}
	var begins []rune
	for r := range byRune {
		begins = append(begins, r)
	}
	slices.Sort(begins)
	for _, r := range begins {
		kids = append(kids, seq(text(jsonRune(r)), except(byRune[r], free)))
	}
	return alt(append(kids, seq(jsonClass(others), free))...)
}
