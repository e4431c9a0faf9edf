package grammar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Refusal says which keyword of a schema cannot be kept, and why.
type Refusal struct {
	Path    string // of the keyword in the schema, as a JSON pointer
	Keyword string
	Problem string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("the schema's %q (at %s) cannot be kept: %s", r.Keyword, r.Path, r.Problem)
}

const (
	maxRules  = 1 << 14
	maxMerges = 1 << 12 // of schemas that hold together
	maxRefs   = 32      // from one to the next
	maxNames  = 8192    // characters of names that other properties must not have
)

// refused are keywords that change what is valid and cannot be kept.
var refused = []string{
	"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "patternProperties", "propertyNames",
	"contains", "minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef", "extends", "disallow", "divisibleBy",
}

// ofType are the keywords that say something of values of one type alone.
var ofType = map[string]string{
	"minLength": "string", "maxLength": "string", "pattern": "string", "format": "string",
	"minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number", "multipleOf": "number",
	"items": "array", "prefixItems": "array", "additionalItems": "array", "minItems": "array", "maxItems": "array", "uniqueItems": "array",
	"properties": "object", "required": "object", "additionalProperties": "object", "minProperties": "object", "maxProperties": "object",
}

// combining are the keywords that say something of values of any type.
var combining = []string{"$ref", "allOf", "anyOf", "oneOf", "enum", "const", "type"}

// allTypes are those of JSON; integer is one of schemas.
var allTypes = []string{"object", "array", "string", "number", "boolean", "null"}

// asserts tells whether a keyword changes what is valid.
func asserts(name string) bool {
	return ofType[name] != "" && name != "format" || slices.Contains(combining, name) || slices.Contains(refused, name)
}

// schemas makes rules of the schemas of one document.
type schemas struct {
	*rules
	root   *value
	known  map[string]int // rules by the text of their schema
	merges int
}

// schema reads a schema.
func (r *rules) schema(raw json.RawMessage) (*expr, error) {
	v, err := readValue(raw)
	if err != nil {
		return nil, &Refusal{"#", "schema", err.Error()}
	}
	s := &schemas{rules: r, root: v, known: map[string]int{}}
	return s.of(v, "#")
}

// of is what a schema admits, as a call of its rule.
func (s *schemas) of(v *value, path string) (*expr, error) {
	key := v.String()
	if i, ok := s.known[key]; ok {
		return call(i), nil
	}
	i, err := s.newRule(never)
	if err != nil {
		return nil, err
	}
	s.known[key] = i
	e, err := s.read(v, path)
	if err != nil {
		return nil, err
	}
	s.list[i] = e
	return call(i), nil
}

// read reads one schema.
func (s *schemas) read(v *value, path string) (*expr, error) {
	refuse := func(keyword, format string, a ...any) error {
		return &Refusal{path + "/" + keyword, keyword, fmt.Sprintf(format, a...)}
	}
	switch v.kind {
	case 't':
		return s.anyValue(), nil
	case 'f':
		return never, nil
	case '{':
	default:
		return nil, &Refusal{path, "schema", "it is neither an object nor a boolean"}
	}
	for _, name := range refused {
		if v.get(name) != nil {
			return nil, refuse(name, "it is not supported")
		}
	}
	if id := v.get("$id"); id != nil && path != "#" {
		return nil, refuse("$id", "only the whole schema may have one")
	}
	switch {
	case v.get("$ref") != nil:
		return s.ref(v, path)
	case v.get("allOf") != nil:
		return s.allOf(v, path)
	case v.get("anyOf") != nil:
		return s.oneOfSeveral(v, "anyOf", path)
	case v.get("oneOf") != nil:
		return s.oneOfSeveral(v, "oneOf", path)
	case v.get("const") != nil:
		return s.values(v, "const", []*value{v.get("const")}, path)
	case v.get("enum") != nil:
		list := v.get("enum")
		if list.kind != '[' {
			return nil, refuse("enum", "it is no list")
		}
		return s.values(v, "enum", list.items, path)
	}
	types, err := typesOf(v)
	if err != nil {
		return nil, refuse("type", "%v", err)
	}
	var kids []*expr
	for _, t := range types {
		e, err := s.ofType(v, t, path)
		if err != nil {
			return nil, err
		}
		kids = append(kids, e)
	}
	return alt(kids...), nil
}

// typesOf are the types that a schema names, or else those that its keywords are about.
func typesOf(v *value) ([]string, error) {
	named := v.get("type")
	if named == nil {
		var out []string
		for _, m := range v.members {
			if t := ofType[m.name]; t != "" && !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
		if out == nil {
			return allTypes, nil
		}
		return out, nil
	}
	list := []*value{named}
	if named.kind == '[' {
		list = named.items
	}
	var out []string
	for _, t := range list {
		if t.kind != '"' || t.text != "integer" && !slices.Contains(allTypes, t.text) {
			return nil, fmt.Errorf("%.50s is no type of JSON Schema", t)
		}
		out = append(out, t.text)
	}
	if slices.Contains(out, "number") {
		out = slices.DeleteFunc(out, func(t string) bool { return t == "integer" })
	}
	return out, nil
}

// ofType are the values of one type that a schema admits.
func (s *schemas) ofType(v *value, t, path string) (*expr, error) {
	switch t {
	case "null":
		return text("null"), nil
	case "boolean":
		return alt(text("true"), text("false")), nil
	case "string":
		return s.texts(v, path)
	case "integer", "number":
		return s.numbers(v, t == "integer", path)
	case "array":
		return s.array(v, path)
	}
	return s.object(v, path)
}

// values are those of a list that are of the schema's types.
func (s *schemas) values(v *value, keyword string, list []*value, path string) (*expr, error) {
	for _, m := range v.members {
		if m.name != keyword && m.name != "type" && asserts(m.name) {
			return nil, &Refusal{path + "/" + m.name, m.name, "it is not supported beside " + keyword}
		}
	}
	types := append(slices.Clone(allTypes), "integer")
	if v.get("type") != nil {
		var err error
		if types, err = typesOf(v); err != nil {
			return nil, &Refusal{path + "/type", "type", err.Error()}
		}
	}
	var kids []*expr
	for _, x := range list {
		if slices.ContainsFunc(types, func(t string) bool { return isOf(x, t) }) {
			kids = append(kids, text(x.String()))
		}
	}
	return alt(kids...), nil
}

// isOf tells whether a value is of a type.
func isOf(v *value, t string) bool {
	switch t {
	case "integer":
		b, err := readBound(json.Number(v.text), false)
		return v.kind == 'n' && err == nil && b.part == ""
	case "number":
		return v.kind == 'n'
	}
	return map[byte]string{'{': "object", '[': "array", '"': "string", 't': "boolean", 'f': "boolean", '0': "null"}[v.kind] == t
}

// ref is what another part of the document admits, and the schema itself.
func (s *schemas) ref(v *value, path string) (*expr, error) {
	to, err := s.target(v, path)
	if err != nil {
		return nil, err
	}
	rest := v.without("$ref")
	if !slices.ContainsFunc(rest.members, func(m member) bool { return asserts(m.name) }) {
		return s.of(to, v.get("$ref").text)
	}
	both, err := s.merge(rest, to, path)
	if err != nil {
		return nil, err
	}
	return s.of(both, path)
}

// target is what a schema's $ref names.
func (s *schemas) target(v *value, path string) (*value, error) {
	r := v.get("$ref")
	refuse := func(format string, a ...any) (*value, error) {
		return nil, &Refusal{path + "/$ref", "$ref", fmt.Sprintf(format, a...)}
	}
	if r.kind != '"' || r.text != "#" && !strings.HasPrefix(r.text, "#/") {
		return refuse("%.80s does not name a part of this schema by a JSON pointer", r)
	}
	at := s.root
	for part := range strings.SplitSeq(strings.TrimPrefix(r.text[1:], "/"), "/") {
		if r.text == "#" {
			break
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(unescaped(part))
		next := at.get(part)
		if i, err := strconv.Atoi(part); err == nil && at.kind == '[' && i >= 0 && i < len(at.items) {
			next = at.items[i]
		}
		if at = next; at == nil {
			return refuse("there is no %.80q in the schema", r.text)
		}
	}
	return at, nil
}

// unescaped reads percent signs as addresses have them.
func unescaped(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1:i+3]) {
			b, _ := strconv.ParseUint(s[i+1:i+3], 16, 8)
			out = append(out, byte(b))
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

// resolved follows $ref, and joins what stands beside it.
func (s *schemas) resolved(v *value, path string) (*value, error) {
	for range maxRefs {
		if v.get("$ref") == nil {
			return v, nil
		}
		to, err := s.target(v, path)
		if err != nil {
			return nil, err
		}
		rest := v.without("$ref")
		if len(rest.members) == 0 {
			v = to
		} else if v, err = s.merge(rest, to, path); err != nil {
			return nil, err
		}
	}
	return nil, &Refusal{path + "/$ref", "$ref", fmt.Sprintf("it leads from one to the next more than %d times", maxRefs)}
}

// allOf joins parts that hold together.
func (s *schemas) allOf(v *value, path string) (*expr, error) {
	parts := v.get("allOf")
	if parts.kind != '[' {
		return nil, &Refusal{path + "/allOf", "allOf", "it is no list"}
	}
	all := v.without("allOf")
	for i, part := range parts.items {
		var err error
		if all, err = s.merge(all, part, path+"/allOf/"+strconv.Itoa(i)); err != nil {
			return nil, err
		}
	}
	return s.of(all, path)
}

// oneOfSeveral is what one of several schemas admits together with the rest.
func (s *schemas) oneOfSeveral(v *value, keyword, path string) (*expr, error) {
	list := v.get(keyword)
	if list.kind != '[' || len(list.items) == 0 {
		return nil, &Refusal{path + "/" + keyword, keyword, "it is no list of schemas"}
	}
	rest := v.without(keyword)
	bare := !slices.ContainsFunc(rest.members, func(m member) bool { return asserts(m.name) })
	var kids []*expr
	var branches []*value
	for i, part := range list.items {
		at := path + "/" + keyword + "/" + strconv.Itoa(i)
		both := part
		if !bare {
			var err error
			if both, err = s.merge(rest, part, at); err != nil {
				return nil, err
			}
		}
		branches = append(branches, both)
		e, err := s.of(both, at)
		if err != nil {
			return nil, err
		}
		kids = append(kids, e)
	}
	if keyword == "oneOf" {
		for i, a := range branches {
			for k, b := range branches[:i] {
				if !s.disjoint(a, b) {
					return nil, &Refusal{path + "/oneOf", "oneOf", fmt.Sprintf("a value might be valid by both %d and %d: write anyOf, or give both a required property with a const of its own", k, i)}
				}
			}
		}
	}
	return alt(kids...), nil
}

// disjoint tells whether no value can be valid by both schemas, as far as types and constants
// show it.
func (s *schemas) disjoint(a, b *value) bool {
	if a.kind == 'f' || b.kind == 'f' {
		return true
	}
	a, errA := s.resolved(a, "")
	b, errB := s.resolved(b, "")
	if errA != nil || errB != nil || a.kind != '{' || b.kind != '{' {
		return false
	}
	ofA, listA := possible(a)
	ofB, listB := possible(b)
	if listA != nil && listB != nil {
		return !slices.ContainsFunc(listA, func(x *value) bool {
			return slices.ContainsFunc(listB, func(y *value) bool { return sameValue(x, y) })
		})
	}
	common := slices.ContainsFunc(ofA, func(t string) bool { return slices.Contains(ofB, t) })
	if !common {
		return true
	}
	if len(ofA) != 1 || ofA[0] != "object" || len(ofB) != 1 || a.get("properties") == nil || b.get("properties") == nil {
		return false
	}
	for _, m := range a.get("properties").members {
		other := b.get("properties").get(m.name)
		if other == nil || !requires(a, m.name) || !requires(b, m.name) {
			continue
		}
		x, errX := s.resolved(m.v, "")
		y, errY := s.resolved(other, "")
		if errX != nil || errY != nil {
			continue
		}
		_, p := possible(x)
		if _, q := possible(y); p != nil && q != nil && s.disjoint(x, y) {
			return true
		}
	}
	return false
}

// sameValue tells whether two values are equal, or might be.
func sameValue(a, b *value) bool {
	return a.kind == b.kind && (a.kind == 'n' || a.kind == '{' || a.kind == '[' || a.text == b.text)
}

// requires tells whether an object must have a property.
func requires(v *value, name string) bool {
	list := v.get("required")
	return list != nil && slices.ContainsFunc(list.items, func(x *value) bool { return x.kind == '"' && x.text == name })
}

// possible are the types that a schema names, integers as numbers, and the values if it lists
// them.
func possible(v *value) (types []string, list []*value) {
	if v.kind != '{' {
		return allTypes, nil
	}
	if c := v.get("const"); c != nil {
		list = []*value{c}
	} else if e := v.get("enum"); e != nil {
		list = append([]*value{}, e.items...)
	}
	types = allTypes
	if v.get("type") != nil {
		named, err := typesOf(v)
		if err != nil {
			return allTypes, list
		}
		types = nil
		for _, t := range named {
			if t == "integer" {
				t = "number"
			}
			types = append(types, t)
		}
	} else if list != nil {
		types = slices.DeleteFunc(slices.Clone(allTypes), func(t string) bool {
			return !slices.ContainsFunc(list, func(x *value) bool { return isOf(x, t) })
		})
	}
	return types, list
}
