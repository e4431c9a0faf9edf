package jinja

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits of one rendering. Real templates take some 100 us and a few hundred
// steps for each message.
const (
	maxSource  = 256 << 10 // bytes of a template
	maxSteps   = 2_000_000 // nodes of the tree evaluated, elements gone through
	maxCalls   = 100       // macros and recursive loops inside each other
	maxForced  = 2000      // generators that go through each other
	maxRange   = 100_000   // length of a range, as the reference has it
	maxDeep    = 64        // lists and dicts inside each other
	renderTime = 5 * time.Second
	baseSize   = 1 << 20 // bytes that a text may have...
	growth     = 8       // ...and for each byte of the input...
	maxText    = 1 << 25 // ...and at most: more than any model reads
	maxMade    = 1 << 28 // bytes of all values made, since a template can keep all of them
)

// Template is a compiled template.
type Template struct{ body block }

// Compile reads a template. It fails on what is not supported.
func Compile(source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("a template of %d bytes, the limit is %d", len(source), maxSource)
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	body, err := parse(tokens)
	if err != nil {
		return nil, err
	}
	return &Template{body}, nil
}

// Render runs the template. now is the time that strftime_now tells; size is
// about how many bytes of text variables hold, which the limits grow with.
func (t *Template) Render(variables map[string]Value, now func() time.Time, size int) (text string, err error) {
	var out strings.Builder
	r := &run{now: now, size: min(baseSize+growth*size, maxText), deadline: time.Now().Add(renderTime), out: &out}
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			text, err = "", f.err
		case error: // a fault of this package must not end the process either
			text, err = "", fmt.Errorf("the template engine failed: %w", f)
		default:
			text, err = "", fmt.Errorf("the template engine failed: %v", f)
		}
	}()
	root := &scope{vars: map[string]Value{}, globals: variables}
	t.body.exec(r, root)
	return out.String(), nil
}

// run is one rendering.
type run struct {
	now      func() time.Time
	out      *strings.Builder // where statements write
	size     int              // the largest text
	made     int              // bytes of all values so far
	steps    int
	calls    int // macros and recursive loops under way
	forced   int // generators whose items are being made
	deadline time.Time
}

// step counts work.
func (r *run) step() {
	if r.steps++; r.steps > maxSteps {
		fail("more than %d steps", maxSteps)
	}
	if r.steps%64 == 0 && // one step may go through a text of the largest size
		time.Now().After(r.deadline) {
		fail("not done after %v", renderTime)
	}
}

// fits refuses a text of n bytes if that is too much.
func (r *run) fits(n int) {
	if n < 0 || n > r.size {
		fail("a text exceeds %d bytes", r.size)
	}
}

// make counts n bytes of a new value, about to be made.
func (r *run) make(n int) {
	r.step()
	r.fits(n)
	if r.made += n; r.made > maxMade {
		fail("the values made exceed %d bytes in all", maxMade)
	}
}

// str is a new string as a value.
func (r *run) str(s string) Value {
	r.make(len(s))
	return s
}

// element is about what an element of a list takes.
const element = 16

// list is a new list as a value.
func (r *run) list(kind listKind, items []Value) *List {
	r.make(element * len(items))
	return &List{Items: items, kind: kind}
}

// deeper bounds macros and recursive loops; call the result when done.
func (r *run) deeper() func() {
	if r.calls++; r.calls > maxCalls {
		fail("macros call each other more than %d deep", maxCalls)
	}
	return func() { r.calls-- }
}

// captured runs something and returns what it wrote.
func (r *run) captured(do func()) string {
	var b strings.Builder
	before := r.out
	r.out = &b
	do()
	r.out = before
	r.make(b.Len())
	return b.String()
}

// write lets a text into the output.
func (r *run) print(s string) {
	r.fits(r.out.Len() + len(s))
	r.out.WriteString(s)
}

// scope is where names are looked up, innermost first.
type scope struct {
	vars    map[string]Value
	parent  *scope
	globals map[string]Value // of the outermost scope
}

func (s *scope) inner() *scope { return &scope{parent: s} }

func (s *scope) set(name string, v Value) {
	if s.vars == nil {
		s.vars = map[string]Value{}
	}
	s.vars[name] = v
}

func (s *scope) get(name string) Value {
	for ; ; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v
		}
		if s.parent == nil {
			break
		}
	}
	if v, ok := s.globals[name]; ok {
		return v
	}
	if f, ok := globalFunctions[name]; ok {
		return f
	}
	return missing("'%s' is undefined", name)
}

// ErrRefused is what raise_exception of a template fails with.
var ErrRefused = errors.New("the template refuses")
