package tokenizer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits of a template. The longest in use has about 30 KB, its brackets
// nest six deep and its blocks nine.
const (
	maxTemplate  = 256 << 10
	maxBrackets  = 50
	maxBlocks    = 50
	maxJoins     = 256     // + and ~ of one expression: each may copy its operands
	maxLiteral   = 1 << 20 // number in a template
	maxRepeat    = 1000    // factor of a repetition
	reservedName = "__"
)

// Names that the rewritten template calls; see budget.values.
const (
	callOut   = reservedName + "out"
	callKeep  = reservedName + "keep"
	callData  = reservedName + "data"
	callStep  = reservedName + "step"
	callEnter = reservedName + "enter"
	callLeave = reservedName + "leave"
)

// mutators change a value in place. The reference runs templates in a sandbox
// that forbids them, and they could tie a value into a knot.
var mutators = []string{"append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}

// replacedMethods and replacedFilters are those that are done here, with
// Python's meaning and within the budget, instead of in the library.
var (
	replacedMethods = []string{"strip", "lstrip", "rstrip", "split", "replace"}
	replacedFilters = []string{"trim", "replace", "join", "indent", "int", "tojson"}
)

// guardTemplate checks a template and writes it again so that every loop,
// macro, output and assignment passes through a function of the budget.
//
// What that does not bound is the work of a single expression on values that
// are within the budget already, such as comparing or slicing them; there are
// at most as many of those as the template has characters.
func guardTemplate(source string) (string, error) {
	if len(source) > maxTemplate {
		return "", fmt.Errorf("chat template of %d bytes, the limit is %d", len(source), maxTemplate)
	}
	chunks, err := lexTemplate(source)
	if err != nil {
		return "", err
	}
	w := guardWriter{chunks: chunks}
	for i, c := range chunks {
		if err := w.write(i, c); err != nil {
			return "", fmt.Errorf("chat template, line %d: %w", c.line, err)
		}
	}
	return w.b.String(), nil
}

// guardWriter writes a template again.
type guardWriter struct {
	b      strings.Builder
	chunks []chunk
	depth  int // blocks that are open
	saved  int // variables saved in front of loops
}

func (w *guardWriter) write(i int, c chunk) error {
	b := &w.b
	if c.kind == textChunk {
		b.WriteString("{{ " + callOut + "(" + quote(c.text) + ") }}")
		return nil
	}
	if len(c.tokens) == 0 {
		return fmt.Errorf("a tag is empty")
	}
	tokens, err := guardTokens(c.tokens)
	if err != nil {
		return err
	}
	if c.kind == outputChunk {
		b.WriteString("{{ " + callOut + "(" + join(tokens) + ") }}")
		return nil
	}
	return w.statement(i, tokens)
}

func (w *guardWriter) statement(i int, tokens []token) error {
	switch tokens[0].text {
	case "for", "macro", "if", "call", "filter", "generation":
		w.depth++
	case "endfor", "endmacro", "endif", "endcall", "endfilter", "endgeneration", "endset":
		w.depth--
	}
	tag := "{% " + join(tokens) + " %}"
	switch tokens[0].text {
	case "for":
		before, after := w.resetVariables(i)
		tag = before + tag + reportTo(callStep) + after
	case "macro":
		tag += reportTo(callEnter)
	case "endmacro":
		tag = reportTo(callLeave) + tag
	case "set":
		var err error
		if tag, err = w.assignment(tokens, tag); err != nil {
			return err
		}
	}
	if w.depth > maxBlocks {
		return fmt.Errorf("blocks are nested more than %d deep", maxBlocks)
	}
	w.b.WriteString(tag)
	return nil
}

func reportTo(call string) string { return "{% set " + reservedName + " = " + call + "() %}" }

func (w *guardWriter) assignment(tokens []token, tag string) (string, error) {
	equals := slices.IndexFunc(tokens, func(t token) bool { return t.is("=") })
	if equals < 0 {
		w.depth++
		if len(tokens) != 2 {
			return "", fmt.Errorf("a block assignment with a filter is not supported")
		}
		return tag, nil
	}
	call := callKeep
	switch target := tokens[1:equals]; {
	case len(target) == 3 && target[1].is("."):
		call = callData
	case len(target) != 1:
		return "", fmt.Errorf("an assignment to anything but a name or a namespace is not supported")
	}
	target := strings.ReplaceAll(join(tokens[:equals]), " . ", ".")
	return "{% " + target + " = " + call + "(" + join(tokens[equals+1:]) + ") %}", nil
}

// resetVariables gives what to write before and inside of a loop so that each
// turn begins with the variables as they were outside: the library keeps the
// assignments of one turn for the next.
func (w *guardWriter) resetVariables(at int) (before, inside string) {
	depth := 0 // loops, macros and calls inside of this loop
	seen := map[string]bool{}
	for _, t := range w.chunks[at].tokens {
		if t.is("in") {
			break
		}
		seen[t.text] = true // the loop sets these itself
	}
	for _, c := range w.chunks[at+1:] {
		if c.kind != statementChunk || len(c.tokens) == 0 {
			continue
		}
		switch c.tokens[0].text {
		case "for", "macro", "call":
			depth++
		case "endfor", "endmacro", "endcall":
			depth--
		case "set":
			if depth > 0 || len(c.tokens) < 2 || seen[c.tokens[1].text] || len(c.tokens) > 2 && c.tokens[2].is(".") {
				break
			}
			name := c.tokens[1].text
			seen[name] = true
			w.saved++
			before += fmt.Sprintf("{%% set %s%d = %s %%}", reservedName, w.saved, name)
			inside += fmt.Sprintf("{%% set %s = %s%d %%}", name, reservedName, w.saved)
		}
		if depth < 0 {
			break
		}
	}
	return before, inside
}

// guardTokens checks one tag and puts the functions of this package in the
// place of some filters and methods.
func guardTokens(in []token) ([]token, error) {
	out := slices.Clone(in)
	joins := 0
	for i, t := range in {
		var before, after token
		if i > 0 {
			before = in[i-1]
		}
		if i+1 < len(in) {
			after = in[i+1]
		}
		switch {
		case t.kind == nameToken && strings.HasPrefix(t.text, reservedName):
			return nil, fmt.Errorf("the name %s is reserved", t.text)
		case t.kind == numberToken && !smallNumber(t.text, maxLiteral):
			return nil, fmt.Errorf("the number %s is above %d", t.text, maxLiteral)
		case t.is("map") && before.is("|") && after.is("(") && i+2 < len(in) && in[i+2].kind == stringToken:
			return nil, fmt.Errorf("map with a filter is not supported (with an attribute it is)")
		case t.is("format") && before.is(".") && after.is("("):
			return nil, fmt.Errorf("format() is not supported: join the parts with ~")
		case t.kind == nameToken && before.is("|") && slices.Contains(replacedFilters, t.text):
			out[i].text = reservedName + t.text
		case t.kind == nameToken && before.is(".") && after.is("(") && slices.Contains(mutators, t.text):
			return nil, fmt.Errorf("%s() changes a value in place, which templates may not", t.text)
		case t.kind == nameToken && before.is(".") && after.is("(") && slices.Contains(replacedMethods, t.text):
			// The library gives | and . the same precedence.
			out[i-1].text, out[i].text = "|", reservedName+"str_"+t.text
		case t.is("+"), t.is("~"):
			joins++
		case t.is("**"):
			return nil, fmt.Errorf("** is not supported")
		case t.is("*") && !isFactor(before) && !isFactor(after):
			return nil, fmt.Errorf("* needs a number of at most %d on one side", maxRepeat)
		}
	}
	if joins > maxJoins {
		return nil, fmt.Errorf("%d values are joined in one expression, the limit is %d", joins, maxJoins)
	}
	return out, checkSlices(in)
}

func smallNumber(s string, limit float64) bool {
	n, err := strconv.ParseFloat(s, 64)
	return err == nil && n <= limit
}

func isFactor(t token) bool { return t.kind == numberToken && smallNumber(t.text, maxRepeat) }

// checkSlices refuses slices that the library walks element by element
// however far they reach: with a step the bounds must be left out, and bounds
// must not be products.
func checkSlices(tokens []token) error {
	type bracket struct {
		slice           bool // opened with [
		colons          int
		bounds, product bool
	}
	var open []bracket
	for _, t := range tokens {
		closes := t.kind == operatorToken && strings.Contains(")]}", t.text)
		if closes && len(open) > 0 {
			open = open[:len(open)-1]
		}
		for i := range open { // what stands in a nested bracket counts as well
			b := &open[i]
			switch {
			case t.is(":") && i == len(open)-1:
				b.colons++
			case t.is("*"):
				b.product = true
			default:
				b.bounds = b.bounds || b.colons < 2
			}
			if b.slice && b.colons == 2 && b.bounds {
				return fmt.Errorf("a slice with bounds and a step is not supported")
			}
			if b.slice && b.colons > 0 && b.product {
				return fmt.Errorf("a product in the bounds of a slice is not supported")
			}
		}
		if t.kind == operatorToken && strings.Contains("([{", t.text) {
			open = append(open, bracket{slice: t.text == "["})
		}
	}
	return nil
}

// join writes tokens so that the library reads the same ones. The spaces keep
// two closing braces from ending the tag.
func join(tokens []token) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 {
			b.WriteByte(' ')
		}
		if t.kind == stringToken {
			b.WriteString(quote(t.text))
		} else {
			b.WriteString(t.text)
		}
	}
	return b.String()
}

// quote writes a string literal as the library reads it.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
