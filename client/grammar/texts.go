package grammar

import (
	"encoding/json"
	"fmt"
	"strings"
)

// texts are the texts that a schema admits.
func (s *schemas) texts(v *value, path string) (*expr, error) {
	least, err := count(v, "minLength", 0, path)
	if err != nil {
		return nil, err
	}
	most, err := count(v, "maxLength", -1, path)
	if err != nil {
		return nil, err
	}
	if p := v.get("pattern"); p != nil {
		refuse := func(problem string) error { return &Refusal{path + "/pattern", "pattern", problem} }
		if p.kind != '"' {
			return nil, refuse("it is no text")
		}
		if least > 0 || most >= 0 {
			return nil, refuse("beside minLength or maxLength it is not supported: write the length into the pattern")
		}
		e, err := s.pattern(p.text, true, jsonClass)
		if err != nil {
			return nil, refuse(err.Error())
		}
		return seq(text(`"`), e, text(`"`)), nil
	}
	if f := v.get("format"); f != nil && least == 0 && most < 0 {
		if source, ok := formats[f.text]; ok && f.kind == '"' {
			e, err := s.pattern(source, false, jsonClass)
			return seq(text(`"`), e, text(`"`)), err
		}
	}
	if least == 0 && most < 0 {
		return s.anyText(), nil
	}
	if err := s.afford(max(least, most), path, "maxLength"); err != nil {
		return nil, err
	}
	return seq(text(`"`), repeat(s.char(), least, most), text(`"`)), nil
}

// maxRepeat is how often a part is written out.
const maxRepeat = 1 << 16

// afford refuses repetitions that are too many to be written out.
func (s *schemas) afford(n int, path, keyword string) error {
	if n > maxRepeat {
		return &Refusal{path + "/" + keyword, keyword, fmt.Sprintf("it is %d: want at most %d", n, maxRepeat)}
	}
	return nil
}

const (
	day      = `(?:[1-9]\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])))`
	hour     = `(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d))`
	label    = `[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?`
	hostname = label + `(?:\.` + label + `){0,6}`
	octet    = `(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
)

// formats are the texts of each format that is kept; others are notes.
var formats = map[string]string{
	"date": day, "time": hour, "date-time": day + "T" + hour,
	"duration": `P(?:\d{1,4}W|\d{1,4}D(?:T\d{1,4}H)?|T(?:\d{1,4}H(?:\d{1,4}M)?|\d{1,4}M(?:\d{1,4}S)?|\d{1,4}S))`,
	"uuid":     `[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`,
	"ipv4":     octet + `(?:\.` + octet + `){3}`,
	"ipv6":     `[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}`,
	"hostname": hostname,
	"email":    `[a-zA-Z0-9_+-]{1,20}(?:\.[a-zA-Z0-9_+-]{1,20}){0,2}@` + label + `(?:\.` + label + `){0,3}\.[a-zA-Z]{2,16}`,
	"uri":      `[a-z][a-z0-9+-]{0,15}://` + hostname + `(?::[1-9]\d{0,3})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*(?:\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?`,
}

// numbers are the numbers that a schema admits.
func (s *schemas) numbers(v *value, integer bool, path string) (*expr, error) {
	var lo, hi *bound
	for _, k := range []struct {
		name   string
		of     **bound
		strict bool
	}{{"minimum", &lo, false}, {"exclusiveMinimum", &lo, true}, {"maximum", &hi, false}, {"exclusiveMaximum", &hi, true}} {
		n := v.get(k.name)
		if n == nil {
			continue
		}
		refuse := func(problem string) error { return &Refusal{path + "/" + k.name, k.name, problem} }
		if n.kind != 'n' {
			return nil, refuse("it is no number")
		}
		b, err := readBound(json.Number(n.text), k.strict)
		if err != nil {
			return nil, refuse(err.Error())
		}
		if *k.of != nil {
			return nil, refuse("beside its other form it is not supported")
		}
		*k.of = &b
	}
	places := maxDigits
	if integer {
		places = 0
	}
	if m := v.get("multipleOf"); m != nil {
		b, err := readBound(json.Number(m.text), false)
		unit := strings.TrimLeft(b.part, "0")
		switch {
		case m.kind == 'n' && err == nil && b.whole == "1" && b.part == "":
			places = 0
		case m.kind == 'n' && err == nil && b.whole == "0" && unit == "1" && !b.negative:
			places = min(places, len(b.part))
		default:
			return nil, &Refusal{path + "/multipleOf", "multipleOf", "only 1, 0.1, 0.01 and so on are supported"}
		}
	}
	switch {
	case lo == nil && hi == nil && places == 0:
		return s.share("integer", func() *expr { return anyInteger }), nil
	case lo == nil && hi == nil && places == maxDigits:
		return s.anyNumber(), nil
	}
	return numbers(lo, hi, places), nil
}
