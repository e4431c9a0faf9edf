package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"

	"whorl/client/sample"
)

// Decode checks a JSON object and decodes it into each of the values; unknown are the fields
// that the schema lacks.
func (a *API) Decode(b []byte, schema string, into ...any) (unknown []string, err error) {
	if err := CheckText(b); err != nil {
		return nil, err
	}
	if err := CheckSize(b); err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(b, &tree); err != nil {
		return nil, Invalid("", "the body is not valid JSON: %v", err)
	}
	s := a.doc.Components.Schemas[schema].Value
	object, _ := tree.(map[string]any)
	for name, v := range object {
		if s.Properties[name] == nil {
			unknown = append(unknown, name)
		}
		if v == nil { // clients write out what they leave open
			delete(object, name)
		}
	}
	slices.Sort(unknown)
	if err := wrongCase(s, tree, ""); err != nil {
		return nil, err
	}
	if err := s.VisitJSON(tree); err != nil {
		return nil, schemaError(err)
	}
	if err := notRefused(s, object); err != nil {
		return nil, err
	}
	if b, err = wholeNumbers(s, object, b); err != nil {
		return nil, err
	}
	for _, v := range into {
		if err := json.Unmarshal(b, v); err != nil {
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				return nil, Invalid(wrong.Field, "%s is a %s: want %s", wrong.Field, wrong.Value, wrong.Type)
			}
			return nil, Invalid("", "%v", err)
		}
	}
	return unknown, nil
}

// CheckText refuses bytes that are no text: a decoder would replace them in silence.
func CheckText(b []byte) error {
	if !utf8.Valid(b) {
		return Invalid("", "the body is not UTF-8")
	}
	return nil
}

// notRefused refuses fields that would change the answer and cannot be done here, as the
// contract marks them (x-refused), unless their value asks for nothing.
func notRefused(s *openapi3.Schema, object map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		p := s.Properties[name]
		if p == nil || p.Value.Extensions["x-refused"] == nil {
			continue
		}
		asks := true
		switch v := object[name].(type) {
		case bool:
			asks = v != (p.Value.Extensions["x-refused"] == "unless-true")
		case float64:
			asks = !sample.Neutral(name, v)
		case string:
			asks = v != ""
		case []any:
			asks = len(v) > 0
		case map[string]any:
			asks = len(v) > 0
		}
		if asks {
			return Unsupported(name, "%s is not supported: leave it out", name)
		}
	}
	return nil
}

// wholeNumbers writes whole numbers of integer fields as such, where they came as floats:
// JSON does not tell 2 from 2.0, encoding/json does.
func wholeNumbers(s *openapi3.Schema, object map[string]any, b []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	for name, v := range object {
		n, isNumber := v.(float64)
		if p := s.Properties[name]; !isNumber || p == nil || !p.Value.Type.Is("integer") {
			continue
		}
		if fields == nil {
			if err := json.Unmarshal(b, &fields); err != nil {
				return nil, Invalid("", "%v", err)
			}
		}
		if text := bytes.TrimSpace(fields[name]); bytes.ContainsAny(text, ".eE") {
			if math.Abs(n) > 1<<53 {
				return nil, Invalid(name, "%s is %s: write it without a point or an exponent", name, Clip(string(text)))
			}
			fields[name] = strconv.AppendInt(nil, int64(n), 10)
		}
	}
	if fields == nil {
		return b, nil
	}
	return json.Marshal(fields)
}

const (
	// maxValues is how many JSON values a request may have, keys of objects counted too.
	// Each takes up to 200 bytes when it is decoded, however short it is.
	maxValues = 1 << 18
	// maxNesting is how deep they may be nested. What goes to a template may be 64 deep,
	// some levels inside a request.
	maxNesting = 80
)

// CheckSize refuses JSON of too many values before it is decoded. It looks at brackets,
// commas and colons alone: whether it is JSON is for the decoder to find.
func CheckSize(b []byte) error {
	values, depth, inText := 1, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '[', c == '{':
			values++
			depth++
		case c == ']', c == '}':
			depth--
		case c == ',', c == ':':
			values++
		}
		if depth > maxNesting {
			return Invalid("", "the JSON is nested more than %d deep", maxNesting)
		}
		if values > maxValues {
			return Invalid("", "the JSON has more than %d values: send fewer, or several requests", maxValues)
		}
	}
	return nil
}

// wrongCase refuses names that differ from one of the contract by case alone. encoding/json
// takes them for that one, so that their values would pass the contract by.
func wrongCase(s *openapi3.Schema, v any, path string) error {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if p := s.Properties[name]; p != nil {
				if err := wrongCase(p.Value, field, path+name+"."); err != nil {
					return err
				}
				continue
			}
			for known := range s.Properties {
				if strings.EqualFold(name, known) {
					return Invalid(path+known, "%s is not a field: write %s", strconv.QuoteToASCII(Clip(path+name)), path+known)
				}
			}
		}
	case []any:
		for i := 0; s.Items != nil && i < len(v); i++ {
			if err := wrongCase(s.Items.Value, v[i], path+strconv.Itoa(i)+"."); err != nil {
				return err
			}
		}
	}
	for _, alternative := range s.AnyOf {
		if err := wrongCase(alternative.Value, v, path); err != nil {
			return err
		}
	}
	return nil
}

// schemaError names the field that breaks the schema, as "messages.0.role".
func schemaError(err error) error {
	var s *openapi3.SchemaError
	if !errors.As(err, &s) {
		return Invalid("", "%v", err)
	}
	pointer := s.JSONPointer()
	if closest := closestForm(s); closest != nil {
		pointer, s = append(pointer, closest.JSONPointer()...), closest
	}
	field, reason := strings.Join(pointer, "."), s.Reason
	switch s.SchemaField {
	case "anyOf":
		reason = "want: " + s.Schema.Description
	case "maximum":
		reason = "want at most " + Plain(*s.Schema.Max)
	case "minimum":
		reason = "want at least " + Plain(*s.Schema.Min)
	}
	if field == "" {
		return Invalid("", "the body is wrong: %s", reason)
	}
	if strings.Contains(s.Reason, "is missing") { // the pointer is the missing field
		return Invalid(field, "%s is missing", field)
	}
	switch v := s.Value.(type) {
	case string, bool, nil, float64:
		return Invalid(field, "%s is %s: %s", field, quote(v), reason)
	}
	return Invalid(field, "%s is wrong: %s", field, reason)
}

// closestForm is, where a value has none of several forms, what is wrong with it as the only
// one of them that is of its type; nil if there is no such one.
func closestForm(s *openapi3.SchemaError) *openapi3.SchemaError {
	var closest *openapi3.SchemaError
	if s.SchemaField != "anyOf" {
		return nil
	}
	for _, form := range s.Schema.AnyOf {
		var wrong *openapi3.SchemaError
		if !errors.As(form.Value.VisitJSON(s.Value), &wrong) || wrong.SchemaField == "type" && len(wrong.JSONPointer()) == 0 {
			continue
		}
		if closest != nil {
			return nil
		}
		closest = wrong
	}
	return closest
}

func quote(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(Clip(v))
	}
	return fmt.Sprint(v)
}

// Plain writes a number without an exponent.
func Plain(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
