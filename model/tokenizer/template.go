package tokenizer

import (
	"errors"
	"fmt"
	"time"

	"github.com/ardanlabs/jinja"
)

// Limits of one rendering. Real templates take some 30 us and a few steps for
// each message.
const (
	maxSteps    = 100_000 // loop turns and macro calls
	maxCalls    = 100     // macros inside each other
	maxRange    = 10_000  // length of a range
	maxDeep     = 32      // lists and dicts inside each other
	maxNumber   = 1 << 31
	renderTime  = 5 * time.Second
	baseSize    = 1 << 20 // bytes that a rendering may make of nothing...
	growth      = 8       // ...and for each byte it was given
	keptGrowth  = 256     // how many times that much may be assigned in all
	maxChatText = 16 << 20
)

// chatTemplate is a compiled chat template, safe for concurrent use.
//
// Templates for text render as the reference renders them. Known to differ,
// by the engine: none joined with ~ shows nothing, undefined attributes are
// empty instead of an error, and strings inside of a printed list are quoted
// in one way only.
type chatTemplate struct{ compiled *jinja.Template }

func (t *Tokenizer) compileTemplate() error {
	if t.templateSource == "" {
		return nil
	}
	guarded, err := guardTemplate(t.templateSource)
	if err != nil {
		return err
	}
	compiled, err := jinja.Compile(guarded)
	if err != nil {
		return fmt.Errorf("chat template: %w", err)
	}
	t.template = &chatTemplate{compiled}
	return nil
}

// render runs the template. size is the number of bytes it is given.
func (c *chatTemplate) render(data map[string]jinja.Value, size int, now func() time.Time) (text string, err error) {
	b := &budget{
		size:     baseSize + growth*size,
		deadline: time.Now().Add(renderTime),
		spaces:   map[*jinja.Dict]bool{},
	}
	for name, fn := range b.functions() {
		data[name] = jinja.NewCallable(name, fn)
	}
	data["strftime_now"] = jinja.NewCallable("strftime_now", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) != 1 || !args[0].IsString() {
			return jinja.Undefined(), errors.New("strftime_now needs a format")
		}
		text, err := strftime(now(), args[0].AsString())
		return jinja.NewString(text), err
	})
	defer func() {
		// The library panics on values it does not expect; a template is a
		// file of somebody else and must not end the process.
		if r := recover(); r != nil {
			text, err = "", fmt.Errorf("the template engine failed: %v", r)
		}
	}()
	return c.compiled.RenderValues(data)
}

// budget bounds one rendering.
type budget struct {
	size         int // the largest value, and the whole output
	shown, kept  int // bytes so far
	steps, calls int
	deadline     time.Time
	spaces       map[*jinja.Dict]bool // the namespaces made so far
}

type function = func(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error)

// functions are what a guarded template calls.
func (b *budget) functions() map[string]function {
	f := b.pythonFunctions()
	f[callOut] = b.out
	f[callKeep] = b.keep
	f[callData] = b.data
	f[callStep] = func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		return jinja.None(), b.step()
	}
	f[callEnter] = func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		if b.calls++; b.calls > maxCalls {
			return jinja.None(), fmt.Errorf("macros call each other more than %d deep", maxCalls)
		}
		return jinja.None(), b.step()
	}
	f[callLeave] = func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		b.calls--
		return jinja.None(), nil
	}
	f["range"] = b.makeRange
	f["namespace"] = b.namespace
	return f
}

func (b *budget) step() error {
	if b.steps++; b.steps > maxSteps {
		return fmt.Errorf("more than %d loop turns and macro calls", maxSteps)
	}
	return b.late()
}

func (b *budget) late() error {
	if time.Now().After(b.deadline) {
		return fmt.Errorf("not done after %v", renderTime)
	}
	return nil
}

// out lets a value into the output.
func (b *budget) out(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	v, n, err := b.check(args, true)
	if err != nil {
		return v, err
	}
	if b.shown += n; b.shown > b.size {
		return v, fmt.Errorf("the output exceeds %d bytes", b.size)
	}
	switch {
	case v.IsNone():
		return jinja.NewString("None"), nil
	case v.IsFloat():
		return jinja.NewString(pythonFloat(v.AsFloat())), nil
	}
	return v, nil
}

// keep lets a value into a variable.
func (b *budget) keep(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	v, n, err := b.check(args, true)
	if err != nil {
		return v, err
	}
	if b.kept += n; b.kept/keptGrowth > b.size {
		return v, fmt.Errorf("the values assigned exceed %d bytes in all", b.size*keptGrowth)
	}
	return v, nil
}

// data lets a value into a namespace: not one that could contain the
// namespace itself, for printing that would never end.
func (b *budget) data(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if v, _, err := b.check(args, false); err != nil {
		return v, err
	}
	return b.keep(args, kwargs)
}

func (b *budget) check(args []jinja.Value, anything bool) (jinja.Value, int, error) {
	if len(args) != 1 {
		return jinja.Undefined(), 0, fmt.Errorf("%d values where one belongs", len(args))
	}
	n, err := b.measure(args[0], 0, anything)
	if err == nil && n > b.size {
		err = fmt.Errorf("a value exceeds %d bytes", b.size)
	}
	if err == nil {
		err = b.late()
	}
	return args[0], n, err
}

// measure is about what a value takes as text. Without anything, functions
// and namespaces in it are an error.
func (b *budget) measure(v jinja.Value, depth int, anything bool) (int, error) {
	const part = 16 // an element of a list, at least
	if depth > maxDeep {
		return 0, fmt.Errorf("lists are nested more than %d deep", maxDeep)
	}
	switch {
	case v.IsString():
		return len(v.AsString()), nil
	case v.IsInt():
		if n := v.AsInt(); n > maxNumber || n < -maxNumber {
			return 0, fmt.Errorf("the number %d is too large", n)
		}
	case v.IsCallable() && !anything:
		return 0, errors.New("a namespace cannot hold a function")
	case v.IsList():
		total := 0
		for _, item := range v.AsList().Items {
			n, err := b.measure(item, depth+1, anything)
			if total += n + part; err != nil || total > b.size {
				return total, err
			}
		}
		return total, nil
	case v.IsDict():
		d := v.AsDict()
		if !anything && b.spaces[d] {
			return 0, errors.New("a namespace cannot hold a namespace")
		}
		total := 0
		for _, key := range d.Keys {
			n, err := b.measure(d.Data[key], depth+1, anything)
			if total += n + part + len(key); err != nil || total > b.size {
				return total, err
			}
		}
		return total, nil
	}
	return part, nil
}

func (b *budget) makeRange(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	start, stop, step := int64(0), int64(0), int64(1)
	for _, a := range args {
		if !a.IsInt() {
			return jinja.Undefined(), errors.New("range needs whole numbers")
		}
		if n := a.AsInt(); n > maxNumber || n < -maxNumber {
			return jinja.Undefined(), fmt.Errorf("range of %d is too large", n)
		}
	}
	switch len(args) {
	case 3:
		step = args[2].AsInt()
		fallthrough
	case 2:
		start, stop = args[0].AsInt(), args[1].AsInt()
	case 1:
		stop = args[0].AsInt()
	default:
		return jinja.Undefined(), fmt.Errorf("range of %d values", len(args))
	}
	if step == 0 {
		return jinja.Undefined(), errors.New("range with step 0")
	}
	var items []jinja.Value
	for n := start; step > 0 && n < stop || step < 0 && n > stop; n += step {
		if len(items) == maxRange {
			return jinja.Undefined(), fmt.Errorf("a range has more than %d numbers", maxRange)
		}
		items = append(items, jinja.NewInt(n))
	}
	return jinja.NewList(items), nil
}

func (b *budget) namespace(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	v := jinja.NewDict()
	d := v.AsDict()
	for _, a := range args {
		if !a.IsDict() {
			return v, errors.New("namespace needs names, or a dict")
		}
		for _, key := range a.AsDict().Keys {
			d.Set(key, a.AsDict().Data[key])
		}
	}
	for _, key := range sortedKeys(kwargs) {
		d.Set(key, kwargs[key])
	}
	b.spaces[d] = true
	return v, nil
}
