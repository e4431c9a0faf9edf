package lora

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"whorl/model"
)

// allLinear is the word for every linear module except the LM head.
const allLinear = "all-linear"

// pattern is a Python regular expression that Go's engine reads too. Both decide alike
// whether a whole name matches.
type pattern struct{ re *regexp.Regexp }

func (p pattern) matches(module string) bool { return p.re != nil && p.re.MatchString(module) }

// compileWhole makes a pattern for whole names.
func compileWhole(text string) (pattern, error) { return compile("^(?:", text, ")$") }

// compileSuffix makes a pattern for whole names or for what follows a dot in them.
func compileSuffix(text string) (pattern, error) { return compile(`^(?:.*\.)?(?:`, text, ")$") }

func compile(before, text, after string) (pattern, error) {
	if len(text) > maxPattern {
		return pattern{}, fmt.Errorf("a pattern of %d bytes: the limit is %d", len(text), maxPattern)
	}
	re, err := regexp.Compile(before + text + after)
	if err != nil {
		return pattern{}, fmt.Errorf("the pattern %q is not supported (%w)", text, err)
	}
	return pattern{re}, nil
}

// names is a set of modules: full names or what follows a dot in them, or one pattern for
// full names.
type names struct {
	list  []string
	whole pattern
}

func (n names) matches(module string) bool {
	return n.whole.matches(module) || n.exactly(module) || n.suffix(module)
}

func (n names) exactly(module string) bool { return slices.Contains(n.list, module) }

func (n names) suffix(module string) bool {
	return slices.ContainsFunc(n.list, func(end string) bool { return strings.HasSuffix(module, "."+end) })
}

// readNames reads a list of names or a regular expression; empty if the field is absent.
func readNames(f *model.Fields, field string) names {
	raw := f.Raw(field)
	if raw == nil {
		return names{}
	}
	var n names
	var text string
	if json.Unmarshal(raw, &text) == nil {
		var err error
		if n.whole, err = compileWhole(text); err != nil {
			f.Fail(field, "is not usable: %v", err)
		}
		return n
	}
	if json.Unmarshal(raw, &n.list) != nil {
		f.Fail(field, "is neither a list of names nor a regular expression")
		return names{}
	}
	if len(n.list) > maxPatterns {
		f.Fail(field, "lists %d names: the limit is %d", len(n.list), maxPatterns)
		n.list = nil
	}
	return n
}

// targets says which modules an adapter changes.
type targets struct {
	all bool // every linear module
	names
	layers []int     // only these blocks; nil: every block. Full names are not asked for it
	layer  []pattern // finds the number of a name's block: its last group
}

func readTargets(f *model.Fields) targets {
	var t targets
	var word string
	raw := f.Raw("target_modules")
	if json.Unmarshal(raw, &word) == nil && strings.ToLower(word) == allLinear {
		t.all = true
	} else {
		t.names = readNames(f, "target_modules")
		if t.whole.re == nil && len(t.list) == 0 {
			f.Fail("target_modules", "is missing or empty")
		}
	}
	t.readLayers(f)
	if len(t.layers) > 0 && (t.all || t.whole.re != nil) {
		f.Fail("layers_to_transform", "is given, but target_modules is no list: PEFT refuses that")
	}
	return t
}

// readLayers reads layers_to_transform, a number or a list, and layers_pattern, a pattern
// or a list.
func (t *targets) readLayers(f *model.Fields) {
	var one int
	if raw := f.Raw("layers_to_transform"); raw != nil {
		if json.Unmarshal(raw, &one) == nil {
			t.layers = []int{one}
		} else if json.Unmarshal(raw, &t.layers) != nil {
			f.Fail("layers_to_transform", "is neither a whole number nor a list of them")
		}
	}
	var patterns []string
	var text string
	if raw := f.Raw("layers_pattern"); raw != nil {
		if json.Unmarshal(raw, &text) == nil {
			if text != "" {
				patterns = []string{text}
			}
		} else if json.Unmarshal(raw, &patterns) != nil || len(patterns) > maxPatterns {
			f.Fail("layers_pattern", "is neither a pattern nor a list of them")
			return
		}
	}
	before := make([]string, len(patterns))
	for i := range before {
		before[i] = `^(?:.*?\.)?`
	}
	if len(patterns) == 0 { // whatever stands before the first number
		before, patterns = []string{`^.*?\.`}, []string{`[^.]*`}
	}
	for i, p := range patterns {
		c, err := compile(before[i]+`(?:`, p, `)\.(\d+)\.`)
		if err != nil {
			f.Fail("layers_pattern", "is not usable: %v", err)
			return
		}
		t.layer = append(t.layer, c)
	}
}

// matches asks for a module by its full name, such as model.layers.0.mlp.up_proj; linear
// tells whether it is one that allLinear means.
func (t *targets) matches(module string, linear bool) bool {
	switch {
	case t.all:
		return linear
	case t.whole.re != nil:
		return t.whole.matches(module)
	}
	return t.exactly(module) || t.suffix(module) && t.inLayers(module)
}

func (t *targets) inLayers(module string) bool {
	if len(t.layers) == 0 {
		return true
	}
	for _, p := range t.layer {
		if m := p.re.FindStringSubmatch(module); m != nil {
			n, err := strconv.Atoi(m[len(m)-1])
			return err == nil && slices.Contains(t.layers, n)
		}
	}
	return false
}

// changes tells whether the adapter changes a module.
func (c *config) changes(module string, linear bool) bool {
	return c.targets.matches(module, linear) && !c.excluded.matches(module)
}
