package jinja

import (
	"math"
	"slices"
	"strconv"
)

// expression reads a whole expression; the grammar below is jinja2's, from the
// loosest binding to the tightest.
func (p *parser) expression() expression { return p.condition(true) }

// chained bounds what is read in a loop, but goes deep when it is evaluated.
func chained(n int) {
	if n > maxChain {
		fail("more than %d operators in a row", maxChain)
	}
}

// condition reads a if b else c; without inline, only what stands before if.
func (p *parser) condition(inline bool) expression {
	defer p.enter()()
	e := p.or()
	for n := 1; inline && p.skipName("if"); n++ {
		chained(n)
		c := conditional{then: e, test: p.or()}
		if p.skipName("else") {
			c.otherwise = p.condition(true)
		}
		e = c
	}
	return e
}

func (p *parser) or() expression {
	left := p.and()
	for n := 1; p.skipName("or"); n++ {
		chained(n)
		left = logical{false, left, p.and()}
	}
	return left
}

func (p *parser) and() expression {
	left := p.not()
	for n := 1; p.skipName("and"); n++ {
		chained(n)
		left = logical{true, left, p.not()}
	}
	return left
}

func (p *parser) not() expression {
	if p.skipName("not") {
		defer p.enter()()
		return unary{"not", p.not()}
	}
	return p.compare()
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) compare() expression {
	c := comparison{first: p.sum()}
	for {
		op := ""
		switch t := p.peek(); {
		case t.kind == operatorToken && slices.Contains(comparisons, t.text):
			op = t.text
		case t.name("in"):
			op = "in"
		case t.name("not") && p.look().name("in"):
			op = "not in"
			p.at++
		default:
			if len(c.ops) == 0 {
				return c.first
			}
			return c
		}
		p.at++
		c.ops = append(c.ops, op)
		c.operands = append(c.operands, p.sum())
	}
}

// binaries reads operands joined by operators of one rank.
func (p *parser) binaries(operand func() expression, ops ...string) expression {
	left := operand()
	for n := 1; ; n++ {
		chained(n)
		t := p.peek()
		if t.kind != operatorToken || !slices.Contains(ops, t.text) {
			return left
		}
		p.at++
		left = binary{t.text, left, operand()}
	}
}

func (p *parser) sum() expression { return p.binaries(p.concat, "+", "-") }

func (p *parser) concat() expression {
	parts := []expression{p.product()}
	for p.skipOp("~") {
		parts = append(parts, p.product())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return concatenation{parts}
}

func (p *parser) product() expression { return p.binaries(p.power, "*", "/", "//", "%") }

func (p *parser) power() expression {
	return p.binaries(func() expression { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) expression {
	defer p.enter()()
	var e expression
	switch {
	case p.skipOp("-"):
		e = unary{"-", p.unary(false)}
	case p.skipOp("+"):
		e = unary{"+", p.unary(false)}
	default:
		e = p.primary()
	}
	e = p.postfix(e)
	for n := 1; filters; n++ {
		chained(n)
		switch t := p.peek(); {
		case t.op("|"):
			e = p.filters(e)
		case t.name("is"):
			e = p.test(e)
		case t.op("("):
			e = p.call(e)
		default:
			return e
		}
	}
	return e
}

func (p *parser) primary() expression {
	switch t := p.take(); {
	case t.kind == nameToken:
		switch t.text {
		case "true", "True":
			return constant{true}
		case "false", "False":
			return constant{false}
		case "none", "None":
			return constant{nil}
		}
		p.used[t.text]++
		return variable{t.text}
	case t.kind == stringToken:
		s := t.text
		for p.peek().kind == stringToken { // 'a' 'b' is one literal
			s += p.take().text
		}
		return constant{s}
	case t.kind == intToken:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			fail("the number %s is too large", t.text)
		}
		return constant{n}
	case t.kind == floatToken:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil && !math.IsInf(f, 0) {
			fail("%q is not a number", t.text)
		}
		return constant{f}
	case t.op("("):
		e := p.tuple(true)
		p.wantOp(")")
		return e
	case t.op("["):
		list := sequence{kind: plainList}
		for !p.skipOp("]") {
			if len(list.items) > 0 {
				p.wantOp(",")
				if p.skipOp("]") {
					break
				}
			}
			list.items = append(list.items, p.expression())
		}
		return list
	case t.op("{"):
		return p.mapping()
	default:
		p.at = max(0, p.at-1)
		fail("unexpected %v", t)
	}
	return nil
}

func (p *parser) mapping() expression {
	var m mapping
	for !p.skipOp("}") {
		if len(m.keys) > 0 {
			p.wantOp(",")
			if p.skipOp("}") {
				break
			}
		}
		m.keys = append(m.keys, p.expression())
		p.wantOp(":")
		m.values = append(m.values, p.expression())
	}
	return m
}

// tuple reads an expression, or several with commas between, which make a
// tuple; inside of brackets also none.
func (p *parser) tuple(bracketed bool) expression { return p.tupleOf(true, bracketed) }

// bareTuple is a tuple whose parts have no if: for loops end in one.
func (p *parser) bareTuple(bracketed bool) expression { return p.tupleOf(false, bracketed) }

func (p *parser) tupleOf(conditionals, bracketed bool) expression {
	var items []expression
	comma := false
	for {
		if t := p.peek(); t.kind == endToken || t.op(")") || t.name("recursive") && !conditionals {
			break
		}
		items = append(items, p.condition(conditionals))
		if !p.skipOp(",") {
			break
		}
		comma = true
	}
	switch {
	case len(items) == 1 && !comma:
		return items[0]
	case len(items) == 0 && !bracketed:
		fail("%v where an expression belongs", p.peek())
	}
	return sequence{items, tupleList}
}

func (p *parser) postfix(e expression) expression {
	for n := 1; ; n++ {
		chained(n)
		switch t := p.peek(); {
		case t.op("."):
			p.at++
			switch name := p.take(); name.kind {
			case nameToken:
				e = attribute{e, name.text}
			case intToken:
				n, err := strconv.ParseInt(name.text, 10, 64)
				if err != nil {
					fail("the number %s is too large", name.text)
				}
				e = subscript{e, constant{n}}
			default:
				fail("%v where a name belongs", name)
			}
		case t.op("["):
			p.at++
			e = subscript{e, p.subscripts()}
		case t.op("("):
			e = p.call(e)
		default:
			return e
		}
	}
}

// subscripts reads what stands in brackets behind a value.
func (p *parser) subscripts() expression {
	var items []expression
	for !p.skipOp("]") {
		if len(items) > 0 {
			p.wantOp(",")
		}
		items = append(items, p.subscribed())
	}
	switch len(items) {
	case 0:
		fail("a subscript is empty")
	case 1:
		return items[0]
	}
	return sequence{items, tupleList}
}

func (p *parser) subscribed() expression {
	var first expression
	if !p.peek().op(":") {
		first = p.expression()
		if !p.peek().op(":") {
			return first
		}
	}
	p.wantOp(":")
	s := slice{start: first}
	part := func() expression {
		if t := p.peek(); t.op(":") || t.op("]") || t.op(",") {
			return nil
		}
		return p.expression()
	}
	s.stop = part()
	if p.skipOp(":") {
		s.step = part()
	}
	return s
}

func (p *parser) call(of expression) expression { return &call{of, p.arguments()} }

func (p *parser) arguments() arguments {
	var a arguments
	p.wantOp("(")
	for first := true; !p.skipOp(")"); first = false {
		if !first {
			p.wantOp(",")
			if p.skipOp(")") {
				break
			}
		}
		switch {
		case p.skipOp("*"):
			if a.star != nil || a.starStar != nil {
				fail("* behind * or ** in a call")
			}
			a.star = p.expression()
		case p.skipOp("**"):
			if a.starStar != nil {
				fail("two ** in a call")
			}
			a.starStar = p.expression()
		case p.peek().kind == nameToken && p.look().op("="):
			a.names = append(a.names, p.take().text)
			p.at++
			a.named = append(a.named, p.expression())
		default:
			if len(a.named) > 0 || a.star != nil || a.starStar != nil {
				fail("a positional argument behind others in a call")
			}
			a.positional = append(a.positional, p.expression())
		}
	}
	return a
}

// filters reads |a|b(1). Without of, the first name has no bar before it if
// it begins a filter tag, and there is one if it follows set.
func (p *parser) filters(of expression) *filter {
	var f *filter
	for n := 1; p.skipOp("|") || n == 1 && of == nil; n++ {
		chained(n)
		f = &filter{of: of, name: p.dotted()}
		if p.peek().op("(") {
			f.args = p.arguments()
		}
		of = f
	}
	return f
}

func (p *parser) dotted() string {
	name := p.wantName()
	for p.skipOp(".") {
		name += "." + p.wantName()
	}
	return name
}

func (p *parser) test(of expression) expression {
	p.at++ // is
	negated := p.skipName("not")
	t := test{of: of, name: p.dotted()}
	switch next := p.peek(); {
	case next.op("("):
		t.args = p.arguments()
	case next.name("else") || next.name("or") || next.name("and"):
	case next.name("is"):
		fail("tests cannot be chained with is")
	case next.kind == nameToken || next.kind == stringToken || next.kind == intToken || next.kind == floatToken || next.op("[") || next.op("{"):
		t.args.positional = []expression{p.postfix(p.primary())}
	}
	if negated {
		return unary{"not", t}
	}
	return t
}
