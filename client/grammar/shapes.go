package grammar

import (
	"encoding/json"
	"fmt"
)

// rules are those of one grammar. Those that many schemas share are made when they are first
// called.
type rules struct {
	list   []*expr
	shared map[string]int
	parts  int // of patterns
}

func call(rule int) *expr { return &expr{op: opCall, rule: rule} }

func (r *rules) newRule(e *expr) (int, error) {
	if len(r.list) == maxRules {
		return 0, &Refusal{"#", "schema", fmt.Sprintf("it needs more than %d rules", maxRules)}
	}
	r.list = append(r.list, e)
	return len(r.list) - 1, nil
}

// share is a call of the rule of a name, which body makes if it is not there. The few of them do
// not count.
func (r *rules) share(name string, body func() *expr) *expr {
	i, ok := r.shared[name]
	if !ok {
		i = len(r.list)
		r.list, r.shared[name] = append(r.list, never), i
		r.list[i] = body()
	}
	return call(i)
}

// maxIndent is how far a line may be indented.
const maxIndent = 32

// space is what may stand between the parts of a list or an object.
func (r *rules) space() *expr {
	return r.share("space", func() *expr {
		return alt(nothing, text(" "), seq(text("\n"), repeat(chars("  \t\t"), 0, maxIndent)))
	})
}

// plainRunes are the characters that a JSON text shows as they are.
func plainRunes() []rune { return without(without([]rune{0x20, 0x10FFFF}, '"'), '\\') }

// char is one character of a text, spelled in any way.
func (r *rules) char() *expr {
	return r.share("char", func() *expr {
		hex := chars("09afAF")
		return alt(runeClass(plainRunes()), seq(text(`\`), alt(
			chars(`""\\//bbffnnrrtt`),
			seq(text("u"), alt(
				seq(chars("09acAC"), hex, hex, hex),
				seq(chars("efEF"), hex, hex, hex),
				seq(chars("ddDD"), chars("07"), hex, hex),
				seq(chars("ddDD"), chars("89abAB"), hex, hex, text(`\u`), chars("ddDD"), chars("cfCF"), hex, hex)))))) // two halves of a character
	})
}

// anyText is any JSON text. Its characters are not calls: it is what a vocabulary is walked for.
func (r *rules) anyText() *expr {
	return r.share("text", func() *expr {
		r.char()
		return seq(text(`"`), repeat(r.list[r.shared["char"]], 0, -1), text(`"`))
	})
}

func (r *rules) anyNumber() *expr { return r.share("number", func() *expr { return anyNumber }) }

// anyValue is any JSON value.
func (r *rules) anyValue() *expr {
	return r.share("value", func() *expr {
		return alt(r.anyObject(), r.anyArray(), r.anyText(), r.anyNumber(), text("true"), text("false"), text("null"))
	})
}

func (r *rules) anyObject() *expr {
	return r.share("object", func() *expr {
		m := r.share("member", func() *expr { return seq(r.anyText(), colon, r.anyValue()) })
		return seq(text("{"), r.space(), maybe(seq(m, repeat(seq(text(","), r.space(), m), 0, -1), r.space())), text("}"))
	})
}

func (r *rules) anyArray() *expr {
	return r.share("array", func() *expr { return r.listOf(nil, r.anyValue(), 0, -1) })
}

// listOf is a list that begins with some items and goes on with others, least to most in all.
func (r *rules) listOf(first []*expr, others *expr, least, most int) *expr {
	if most >= 0 && most < len(first) {
		first = first[:most]
	}
	next := func(e *expr) *expr { return seq(text(","), r.space(), e) }
	behind := -1 // most behind the first ones
	if most >= 0 {
		behind = most - len(first)
	}
	tail := repeat(next(others), max(0, least-len(first)), behind)
	if others == never {
		tail = nothing
		if least > len(first) {
			return never
		}
	}
	empty := seq(text("["), r.space(), text("]"))
	if len(first) == 0 {
		if others == never || most == 0 {
			if least > 0 {
				return never
			}
			return empty
		}
		rest := -1
		if most >= 0 {
			rest = most - 1
		}
		filled := seq(text("["), r.space(), others, repeat(next(others), max(0, least-1), rest), r.space(), text("]"))
		if least > 0 {
			return filled
		}
		return alt(empty, filled)
	}
	// From behind: each of the first items may end the list, if there are enough.
	for i := len(first) - 1; i > 0; i-- {
		tail = seq(next(first[i]), tail)
		if i >= least {
			tail = maybe(tail)
		}
	}
	filled := seq(text("["), r.space(), first[0], tail, r.space(), text("]"))
	if least > 0 {
		return filled
	}
	return alt(empty, filled)
}

var colon = seq(text(":"), maybe(text(" ")))

// count reads a keyword that is a number of things, d if it is not there.
func count(v *value, name string, d int, path string) (int, error) {
	n := v.get(name)
	if n == nil {
		return d, nil
	}
	b, err := readBound(json.Number(n.text), false)
	if n.kind != 'n' || err != nil || b.negative || b.part != "" || len(b.whole) > 9 {
		return 0, &Refusal{path + "/" + name, name, "it is no whole number from 0 to 999999999"}
	}
	out := 0
	fmt.Sscan(b.whole, &out)
	return out, nil
}

// array is a list that a schema admits.
func (s *schemas) array(v *value, path string) (*expr, error) {
	least, err := count(v, "minItems", 0, path)
	if err != nil {
		return nil, err
	}
	most, err := count(v, "maxItems", -1, path)
	if err != nil {
		return nil, err
	}
	if err := s.afford(max(least, most), path, "maxItems"); err != nil {
		return nil, err
	}
	if u := v.get("uniqueItems"); u != nil && u.kind != 'f' && (most < 0 || most > 1) {
		return nil, &Refusal{path + "/uniqueItems", "uniqueItems", "it is not supported"}
	}
	items, first, others := v.get("items"), v.get("prefixItems"), "items"
	if items != nil && items.kind == '[' { // as older drafts have it
		first, items, others = items, v.get("additionalItems"), "additionalItems"
	}
	var list []*expr
	if first != nil {
		if first.kind != '[' {
			return nil, &Refusal{path + "/prefixItems", "prefixItems", "it is no list"}
		}
		for i, item := range first.items {
			e, err := s.of(item, fmt.Sprintf("%s/prefixItems/%d", path, i))
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
	}
	rest := s.anyValue()
	switch {
	case items != nil && items.kind == 'f':
		rest = never
	case items != nil:
		if rest, err = s.of(items, path+"/"+others); err != nil {
			return nil, err
		}
	}
	return s.listOf(list, rest, least, most), nil
}
