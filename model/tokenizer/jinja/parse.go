package jinja

import (
	"fmt"
	"slices"
)

// parser makes a tree of tokens. A method that finds an error panics with a
// failure; parse catches it.
type parser struct {
	tokens []token
	at     int
	depth  int // of expressions and blocks inside each other
	loops  int // the loops that a break could leave
	// used counts the reads of caller, kwargs and varargs, for the macro
	// that is being read.
	used map[string]int
}

const (
	maxNesting = 200  // what the parser recurses into
	maxChain   = 1000 // operators in a row
	// maxTag is how many tokens a tag has, and with it how deep evaluating one goes: a
	// macro within its own expression goes maxCalls times as deep, and a full stack would
	// end the process.
	maxTag = 8192
)

func parse(tokens []token) (b block, err error) {
	p := &parser{tokens: tokens, used: map[string]int{}}
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			err = fmt.Errorf("line %d: %w", p.peek().line, f.err)
		default:
			panic(f)
		}
	}()
	return p.block(), nil
}

// failure is a panic with an error of the template.
type failure struct{ err error }

func fail(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) look() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

func (p *parser) take() token {
	t := p.tokens[p.at]
	if t.kind != eofToken {
		p.at++
	}
	return t
}

func (p *parser) skipOp(text string) bool {
	if p.peek().op(text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) skipName(text string) bool {
	if p.peek().name(text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) wantOp(text string) {
	if !p.skipOp(text) {
		fail("%v where %q belongs", p.peek(), text)
	}
}

func (p *parser) wantName() string {
	if p.peek().kind != nameToken {
		fail("%v where a name belongs", p.peek())
	}
	return p.take().text
}

func (p *parser) wantEnd() {
	if p.peek().kind != endToken {
		fail("%v where the tag should end", p.peek())
	}
	p.at++
}

// enter bounds recursion; call the result when done.
func (p *parser) enter() func() {
	if p.depth++; p.depth > maxNesting {
		fail("nested more than %d deep", maxNesting)
	}
	return func() { p.depth-- }
}

// block reads statements up to one of the tags in until, whose name is left to
// be read; with none, up to the end of the template.
func (p *parser) block(until ...string) block {
	defer p.enter()()
	var b block
	for {
		switch t := p.take(); {
		case t.kind == eofToken:
			if len(until) > 0 {
				fail("the template ends where %q belongs", until[len(until)-1])
			}
			return b
		case t.kind == textToken:
			b = append(b, textOutput{t.text})
		case t.text == "{{":
			b = append(b, valueOutput{p.tuple(false)})
			p.wantEnd()
		default:
			name := p.peek()
			if name.kind != nameToken {
				fail("a tag begins with %v, not with a name", name)
			}
			if slices.Contains(until, name.text) {
				return b
			}
			p.at++
			b = append(b, p.statement(name.text))
		}
	}
}

// end reads the name of the tag that ends a block, and the end of that tag.
func (p *parser) end() {
	p.at++
	p.wantEnd()
}

func (p *parser) statement(name string) statement {
	switch name {
	case "if":
		return p.branch()
	case "for":
		return p.loop()
	case "set":
		return p.set()
	case "macro":
		return p.macro()
	case "call":
		return p.callBlock()
	case "filter":
		f := p.filters(nil)
		p.wantEnd()
		b := filterBlock{f, p.block("endfilter")}
		p.end()
		return b
	case "with":
		return p.with()
	case "generation":
		p.wantEnd()
		g := generation{p.block("endgeneration")}
		p.end()
		return g
	case "break", "continue":
		if p.loops == 0 {
			fail("%s outside of a loop", name)
		}
		p.wantEnd()
		if name == "break" {
			return jump{breakLoop}
		}
		return jump{continueLoop}
	case "include", "import", "from", "extends", "block", "autoescape", "print":
		fail("the tag %q is not supported", name)
	}
	fail("unknown tag %q", name)
	return nil
}

func (p *parser) branch() statement {
	var b branch
	for {
		b.tests = append(b.tests, p.bareTuple(false))
		p.wantEnd()
		b.bodies = append(b.bodies, p.block("elif", "else", "endif"))
		switch p.take().text {
		case "elif":
			continue
		case "else":
			p.wantEnd()
			b.bodies = append(b.bodies, p.block("endif"))
			p.at++
		default:
			b.bodies = append(b.bodies, nil)
		}
		p.wantEnd()
		return b
	}
}

func (p *parser) loop() statement {
	l := loop{target: p.target(false)}
	if !p.skipName("in") {
		fail("%v where \"in\" belongs", p.peek())
	}
	l.over = p.bareTuple(false)
	if p.skipName("if") {
		l.test = p.expression()
	}
	l.recursive = p.skipName("recursive")
	p.wantEnd()
	p.loops++
	l.body = p.block("else", "endfor")
	p.loops--
	if p.take().text == "else" {
		p.wantEnd()
		l.els = p.block("endfor")
		p.at++
	}
	p.wantEnd()
	return l
}

// target reads what is assigned to; attributes of namespaces only where set
// allows them.
func (p *parser) target(attributes bool) target {
	one := func() target {
		if p.skipOp("(") {
			t := p.target(attributes)
			p.wantOp(")")
			return t
		}
		t := target{name: p.wantName()}
		switch t.name {
		case "true", "false", "none", "True", "False", "None":
			fail("cannot assign to %q", t.name)
		}
		if attributes && p.skipOp(".") {
			t.attribute = p.wantName()
		}
		return t
	}
	first := one()
	if !p.peek().op(",") {
		return first
	}
	all := target{several: []target{first}}
	for p.skipOp(",") {
		if t := p.peek(); t.name("in") || t.op(")") {
			break
		}
		all.several = append(all.several, one())
	}
	return all
}

func (p *parser) set() statement {
	t := p.target(true)
	if p.skipOp("=") {
		a := assignment{t, p.tuple(false)}
		p.wantEnd()
		return a
	}
	c := capture{target: t}
	if p.peek().op("|") {
		c.filter = p.filters(nil)
	}
	p.wantEnd()
	c.body = p.block("endset")
	p.end()
	return c
}

func (p *parser) macro() statement {
	name := p.wantName()
	m := &macro{name: name}
	p.signature(m)
	p.wantEnd()
	p.macroBody(m, "endmacro")
	return m
}

// signature reads (a, b=1).
func (p *parser) signature(m *macro) {
	p.wantOp("(")
	for !p.skipOp(")") {
		if len(m.parameters) > 0 {
			p.wantOp(",")
		}
		m.parameters = append(m.parameters, p.wantName())
		if p.skipOp("=") {
			m.defaults = append(m.defaults, p.expression())
		} else if len(m.defaults) > 0 {
			fail("the macro %s has a parameter without default behind one with", m.name)
		}
	}
}

func (p *parser) macroBody(m *macro, end string) {
	before, loops := p.used, p.loops
	p.used, p.loops = map[string]int{}, 0
	m.body = p.block(end)
	m.caller, m.kwargs, m.varags = p.used["caller"] > 0, p.used["kwargs"] > 0, p.used["varargs"] > 0
	p.used, p.loops = before, loops
	p.end()
}

func (p *parser) callBlock() statement {
	body := &macro{name: "caller"}
	if p.peek().op("(") {
		p.signature(body)
	}
	of, ok := p.expression().(*call)
	if !ok {
		fail("the call tag calls nothing")
	}
	p.wantEnd()
	p.macroBody(body, "endcall")
	return callBlock{of, body}
}

func (p *parser) with() statement {
	var w with
	for p.peek().kind != endToken {
		if len(w.targets) > 0 {
			p.wantOp(",")
		}
		t := target{name: p.wantName()}
		p.wantOp("=")
		w.targets = append(w.targets, t)
		w.values = append(w.values, p.expression())
	}
	p.wantEnd()
	w.body = p.block("endwith")
	p.end()
	return w
}
