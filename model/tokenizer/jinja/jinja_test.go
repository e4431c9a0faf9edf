package jinja

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"whorl/internal/fixture"
)

type goldenCases struct {
	Vars  map[string]json.RawMessage `json:"vars"`
	Cases [][2]*string               `json:"cases"`
}

func readCases(t testing.TB) goldenCases {
	t.Helper()
	return fixture.JSON[goldenCases](t, "testdata/cases.json.gz")
}

func (g *goldenCases) variables(t testing.TB) map[string]Value {
	t.Helper()
	vars := map[string]Value{}
	for name, data := range g.Vars {
		v, err := new(Reader).Read(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		vars[name] = v
	}
	return vars
}

func saturday() time.Time { return time.Date(2026, 3, 7, 0, 5, 9, 0, time.UTC) }

func renderText(source string, vars map[string]Value) (string, error) {
	t, err := Compile(source)
	if err != nil {
		return "", err
	}
	return t.Render(vars, saturday, 0)
}

// TestEqualsJinja2 renders several thousand templates, and fails on those that
// jinja2 fails on.
func TestEqualsJinja2(t *testing.T) {
	g := readCases(t)
	vars := g.variables(t)
	different, refused := 0, 0
	for _, c := range g.Cases {
		got, err := renderText(*c[0], vars)
		switch {
		case c[1] == nil && err != nil:
			refused++
			if strings.Contains(err.Error(), "engine failed") {
				t.Errorf("%q: %v", *c[0], err)
			}
			continue
		case c[1] != nil && err == nil && got == *c[1]:
			continue
		}
		if different++; different <= 40 {
			want := "an error"
			if c[1] != nil {
				want = *c[1]
			}
			t.Errorf("%q\n got %q, %v\nwant %q", *c[0], got, err, want)
		}
	}
	if different > 0 {
		t.Errorf("%d of %d templates differ", different, len(g.Cases))
	}
	if len(g.Cases) < 5000 || refused < 1000 {
		t.Errorf("%d cases, %d of them errors", len(g.Cases), refused)
	}
}

// TestLimits feeds templates that would take all time or memory, or end the
// process.
func TestLimits(t *testing.T) {
	loops := strings.Repeat("{% for a in range(9000) %}", 8) + "{% set x = a %}" + strings.Repeat("{% endfor %}", 8)
	big := "{% set x = 'a' * 1000000 %}"
	for _, c := range []struct{ name, template, want string }{
		{"loops in loops", loops, "steps"},
		{"long range", "{{ range(1000000) | length }}", "a range has more"},
		{"macro calls itself", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "macros call each other"},
		{"caller calls the macro", "{% macro g() %}{{ caller() }}{% endmacro %}{% macro f() %}{% call g() %}{{ f() }}{% endcall %}{% endmacro %}{{ f() }}", "macros call each other"},
		{"default calls the macro", "{% macro f(a=f()) %}{% endmacro %}{{ f() }}", "macros call each other"},
		{"loop calls itself", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "macros call each other"},
		{"doubling", "{% set x = 'aaaaaaaa' %}" + strings.Repeat("{% set x = x ~ x %}", 40), "a text exceeds"},
		{"doubling by plus", "{% set x = 'aaaaaaaa' %}" + strings.Repeat("{% set x = x + x %}", 40), "a text exceeds"},
		{"doubling lists", "{% set x = [1, 2] %}" + strings.Repeat("{% set x = x + x %}", 40), "a text exceeds"},
		{"shared lists", "{% set x = ['a'] %}" + strings.Repeat("{% set x = [x, x] %}", 30) + "{{ x }}", "a text exceeds"},
		{"shared lists compared", "{% set x = ['a'] %}{% set y = ['a'] %}" + strings.Repeat("{% set x = [x, x] %}{% set y = [y, y] %}", 30) + "{{ x == y }}", "steps"},
		{"shared lists as JSON", "{% set x = [1] %}" + strings.Repeat("{% set x = [x, x] %}", 30) + "{{ x | tojson }}", "a text exceeds"},
		{"output in a loop", big + "{% for i in range(1000) %}{{ x }}{% endfor %}", "a text exceeds"},
		{"text in a loop", "{% for i in range(5000) %}" + strings.Repeat("long text ", 100) + "{% endfor %}", "a text exceeds"},
		{"values in a loop", big + "{% for i in range(1000) %}{% set y = x ~ 'b' %}{% endfor %}", "in all"},
		{"slices in a loop", big + "{% for i in range(1000) %}{% set y = x[1:] %}{% endfor %}", "in all"},
		{"lists of characters", big + "{{ x | list | length }}", "a text exceeds"},
		{"repeat", "{{ 'a' * 100000000 }}", "a text exceeds"},
		{"repeat a list", "{{ [1] * 100000000 }}", "a list exceeds"},
		{"power", "{{ 10 ** 100 }}", "too large"},
		{"replace", big + "{{ x.replace('a', x) }}", "a text exceeds"},
		{"replace as a filter", big + "{{ x | replace('', x) }}", "a text exceeds"},
		{"join", big + "{{ 'aaaa' | join(x) }}", "a text exceeds"},
		{"indent", "{% set x = '\n' * 500000 %}{{ x | indent(100) }}", "a text exceeds"},
		{"center", "{{ 'a' | center(100000000) }}", "a text exceeds"},
		{"zfill", "{{ 'a'.zfill(100000000) }}", "a text exceeds"},
		{"format", "{{ '%99999999d' % 1 }}", "too wide"},
		{"json indent", "{{ [1] | tojson(indent=100000000) }}", "a text exceeds"},
		{"slice filter", "{{ [1] | slice(100000000) | list }}", "not supported"},
		{"batch filter", "{{ [1] | batch(100000000, 0) | list }}", "a text exceeds"},
		{"namespace in itself", "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}", "nested more than"},
		{"namespace in itself as JSON", "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns | tojson }}", "not JSON"},
		{"namespaces in themselves compared", "{% set a = namespace() %}{% set b = namespace() %}{% set a.x = [a] %}{% set b.x = [b] %}{{ a.x == b.x }}", ""},
		{"deep brackets", "{{ " + strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300) + " }}", "nested more than"},
		{"deep blocks", strings.Repeat("{% if true %}", 300) + strings.Repeat("{% endif %}", 300), "nested more than"},
		{"deep nots", "{{ " + strings.Repeat("not ", 5000) + "1 }}", "nested more than"},
		{"deep minuses", "{{ " + strings.Repeat("- ", 5000) + "1 }}", "nested more than"},
		{"deep lists", "{% set ns = namespace(l=[]) %}{% for i in range(100) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}", "nested more than"},
		{"long", strings.Repeat("x", maxSource+1), "the limit"},
		{"many operators", "{{ 'a'" + strings.Repeat(" + 'a'", 2000) + " }}", "operators in a row"},
		{"many filters", "{{ 'a'" + strings.Repeat(" | upper", 2000) + " }}", "operators in a row"},
		{"many attributes", "{{ a" + strings.Repeat(".b", 2000) + " }}", "operators in a row"},
		{"many inline ifs in a macro", "{% macro f() %}{{ f()" + strings.Repeat(" if 1", 50000) + " }}{% endmacro %}{{ f() }}", "words and signs"},
		{"many ifs", "{{ 1" + strings.Repeat(" if 1", 1500) + " }}", "operators in a row"},
		{"generators of generators", "{% set ns = namespace(x=[1]) %}{% for i in range(3000) %}{% set ns.x = ns.x | map('string') %}{% endfor %}{{ ns.x | list }}", "generators go through"},
		{"large int", "{{ 99999999999999999999 }}", "too large"},
		{"sum too large", "{{ 9223372036854775807 + 1 }}", "too large"},
		{"product too large", "{{ 9223372036854775807 * 3 }}", "too large"},
	} {
		got, err := renderText(c.template, nil) // it ends, or the test does not
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil && strings.Contains(err.Error(), "not done after") {
			continue // on a slow machine its time is over before anything else
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %.60q and error %v, want one line with %q", c.name, got, err, c.want)
		}
	}
}

// TestUnsupported: what jinja2 has and this package has not is named.
func TestUnsupported(t *testing.T) {
	for template, want := range map[string]string{
		"{% include 'x' %}":               `the tag "include" is not supported`,
		"{% extends 'x' %}":               `the tag "extends" is not supported`,
		"{% block b %}{% endblock %}":     `the tag "block" is not supported`,
		"{% autoescape t %}":              `the tag "autoescape" is not supported`,
		"{% do x %}":                      `unknown tag "do"`,
		"a\n{% frobnicate %}":             `line 2: unknown tag "frobnicate"`,
		"{{ 1 | urlize }}":                `the filter "urlize" is not supported`,
		"{{ 'a' | safe | upper }}":        "the filter upper over safe text is not supported",
		"{{ ('a' | safe)[0] }}":           "taking a part of safe text is not supported",
		"{{ ('a' | safe).upper() }}":      "taking a part of safe text is not supported",
		"{{ 1 is escaped }}":              `the test "escaped" is not supported`,
		"{{ cycler('a') }}":               "the function cycler is not supported",
		"{{ 'a'.translate({}) }}":         "the str method translate is not supported",
		"{{ '\\N{BULLET}' }}":             `the escape \N is not supported`,
		"{{ range(3) }}":                  "printing a range is not supported",
		"{{ '%(a)s' % {'a': 1} }}":        "the format %( is not supported",
		"{{ '{a.b}'.format(a=1) }}":       "the format field {a.b} is not supported",
		"{{ strftime_now('%Q') }}":        "%Q is not supported",
		"{% for a in b %}":                "the template ends where",
		"{{ 'a":                           "not closed",
		"{# a":                            "not closed",
		"{{ nobody.strip() }}":            "'nobody' is undefined",
		"{% set d = {} %}{{ d.x.y }}":     "'dict object' has no attribute 'x'",
		"{{ raise_exception('no way') }}": "no way",
	} {
		if got, err := renderText(template, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v, want an error with %q", template, got, err, want)
		}
	}
	if _, err := renderText("{{ raise_exception('x') }}", nil); !errors.Is(err, ErrRefused) {
		t.Errorf("raise_exception fails with %v", err)
	}
}

// TestStrftime has what Python says of the same moment, in the C locale.
func TestStrftime(t *testing.T) {
	const format = "%d %b %Y|%-d.%-m.%y|%H:%M:%S|%-H %-I %p|%A %a %B %h|%j %-j|%u %w %V %G|%e|%F %T %D %R|%f|%c|%x %X|%Z%z|%%|%n%t|%"
	const want = "07 Mar 2026|7.3.26|00:05:09|0 12 AM|Saturday Sat March Mar|066 66|6 6 10 2026| 7|2026-03-07 00:05:09 03/07/26 00:05|000000|" +
		"Sat Mar  7 00:05:09 2026|03/07/26 00:05:09||%|\n\t|%"
	if got, err := strftime(saturday(), format); err != nil || got != want {
		t.Errorf("got %q, %v\nwant %q", got, err, want)
	}
}

func TestRead(t *testing.T) {
	const text = `{"b":1,"a":[1.0,true,null,"x\u00e9"],"B":{"z":-5,"y":1e3}}`
	v, err := new(Reader).Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := renderText("{{ v | tojson }}", map[string]Value{"v": v})
	if want := `{"b": 1, "a": [1.0, true, null, "xé"], "B": {"z": -5, "y": 1000.0}}`; err != nil || got != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	for _, bad := range []string{"", "{", "[1,]", "{} {}", `""}`, "{}}", "99999999999999999999", `{"a":}`, strings.Repeat("[", 200) + strings.Repeat("]", 200)} {
		if v, err := new(Reader).Read([]byte(bad)); err == nil {
			t.Errorf("%.20q gave %v", bad, v)
		}
	}
	changed := MapStrings(v, strings.ToUpper)
	if got, err = renderText("{{ v }}", map[string]Value{"v": changed}); err != nil || !strings.Contains(got, "'XÉ'") || !strings.Contains(got, "'Z': -5") {
		t.Errorf("got %s, %v", got, err)
	}
	if got, _ = renderText("{{ v | tojson }}", map[string]Value{"v": v}); !strings.Contains(got, `"b"`) {
		t.Errorf("MapStrings changed what it was given: %s", got)
	}
}

// FuzzRender: no template ends the process, runs for ever or grows.
func FuzzRender(f *testing.F) {
	g := readCases(f)
	for i, c := range g.Cases {
		if i < 400 || i%40 == 0 {
			f.Add(*c[0])
		}
	}
	vars := g.variables(f)
	f.Fuzz(func(t *testing.T, source string) {
		got, err := renderText(source, vars)
		if err != nil && strings.Contains(err.Error(), "engine failed") {
			t.Fatal(err)
		}
		if len(got) > 2*baseSize {
			t.Fatalf("%d bytes", len(got))
		}
	})
}

// FuzzRead compares with encoding/json on what is JSON.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"b":1,"a":[1.0,true,null,"x"]}`))
	f.Add([]byte(`""}`))
	f.Add([]byte(`[[],{},"\ud800",1e400,-0]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := new(Reader).Read(data)
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q is no JSON", data)
		}
		if _, err := renderText("{{ v | tojson }}", map[string]Value{"v": v}); err != nil && len(data) < 1000 {
			t.Fatal(err)
		}
	})
}

// A dict is the same with few keys and with many.
func TestDictOfAnySize(t *testing.T) {
	d := NewDict()
	for round := range 2 { // the second time, keys are set anew
		for i := range int64(40) {
			d.set(i, i+int64(round))
			for j := range int64(40) {
				v, ok := d.get(float64(j))
				if ok != (j <= i || round > 0) || ok && v != j+int64(round) && v != j {
					t.Fatalf("round %d: after %d keys, %d is %v, %v", round, i+1, j, v, ok)
				}
			}
		}
	}
	if len(d.keys) != 40 || d.keys[39] != int64(39) {
		t.Errorf("the keys are %v", d.keys)
	}
}
