package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"whorl/swarm"
)

// readBody reads a body within the limit.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.limits.BodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, refused(codeBodySize, "the body is larger than %d bytes", a.limits.BodyBytes)
	case err != nil:
		return nil, refused(swarm.CodeCancelled, "the body ended early: %v", err)
	}
	return b, nil
}

// readJSON reads a JSON body, checks it against a schema of the contract and decodes it into
// each of the values. Fields that the schema does not have are named in X-Warning.
func (a *API) readJSON(w http.ResponseWriter, r *http.Request, schema string, into ...any) error {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media != "application/json" && !strings.HasSuffix(media, "+json") {
		return refused(codeMediaType, "the content type is %q: send application/json", clip(r.Header.Get("Content-Type")))
	}
	b, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	unknown, err := a.decode(b, schema, into...)
	if err != nil {
		return err
	}
	warn(w, unknown)
	return nil
}

// decode checks a JSON object and decodes it into each of the values; unknown are the fields
// that the schema lacks.
func (a *API) decode(b []byte, schema string, into ...any) (unknown []string, err error) {
	if err := checkSize(b); err != nil {
		return nil, err
	}
	var plain any
	if err := json.Unmarshal(b, &plain); err != nil {
		return nil, invalid("", "the body is not valid JSON: %v", err)
	}
	s := a.doc.Components.Schemas[schema].Value
	object, _ := plain.(map[string]any)
	for name, v := range object {
		if s.Properties[name] == nil {
			unknown = append(unknown, name)
		}
		if v == nil { // clients write out what they leave open
			delete(object, name)
		}
	}
	slices.Sort(unknown)
	if err := s.VisitJSON(plain); err != nil {
		return nil, schemaError(err)
	}
	for _, v := range into {
		if err := json.Unmarshal(b, v); err != nil {
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				return nil, invalid(wrong.Field, "%s is a %s: want %s", wrong.Field, wrong.Value, wrong.Type)
			}
			return nil, invalid("", "%v", err)
		}
	}
	return unknown, nil
}

const (
	// maxValues is how many JSON values a request may have, keys of objects counted too.
	// Each takes up to 200 bytes when it is decoded, however short it is.
	maxValues = 1 << 18
	// maxNesting is how deep they may be nested. What goes to a template may be 64 deep,
	// some levels inside a request.
	maxNesting = 80
)

// checkSize refuses JSON of too many values before it is decoded. It looks at brackets,
// commas and colons alone: whether it is JSON is for the decoder to find.
func checkSize(b []byte) error {
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
			return invalid("", "the JSON is nested more than %d deep", maxNesting)
		}
		if values > maxValues {
			return invalid("", "the JSON has more than %d values: send fewer, or several requests", maxValues)
		}
	}
	return nil
}

// schemaError names the field that breaks the schema, as "messages.0.role".
func schemaError(err error) error {
	var s *openapi3.SchemaError
	if !errors.As(err, &s) {
		return invalid("", "%v", err)
	}
	field := strings.Join(s.JSONPointer(), ".")
	if field == "" {
		return invalid("", "the body is wrong: %s", s.Reason)
	}
	if strings.Contains(s.Reason, "is missing") { // the pointer is the missing field
		return invalid(field, "%s is missing", field)
	}
	switch v := s.Value.(type) {
	case string, bool, nil, float64:
		return invalid(field, "%s is %s: %s", field, quote(v), s.Reason)
	}
	return invalid(field, "%s is wrong: %s", field, s.Reason)
}

func quote(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(clip(v))
	}
	return fmt.Sprint(v)
}

// maxWarnings is how many ignored fields a reply names.
const maxWarnings = 10

// warnings says which fields were ignored.
func warnings(unknown []string) []string {
	var out []string
	for i, name := range unknown {
		if i == maxWarnings {
			return append(out, fmt.Sprintf("%d more unknown fields were ignored", len(unknown)-i))
		}
		out = append(out, fmt.Sprintf("the unknown field %s was ignored", strconv.QuoteToASCII(clip(name))))
	}
	return out
}

// warn puts warnings in headers.
func warn(w http.ResponseWriter, unknown []string) {
	for _, text := range warnings(unknown) {
		w.Header().Add("X-Warning", text)
	}
}

// deadline is the time a request may take: its field or its header, or the default.
// seconds is nil or 0 if the field is absent.
func (a *API) deadline(seconds *float64, header *string) (time.Duration, error) {
	switch {
	case seconds != nil && *seconds > 0:
		return max(time.Millisecond, time.Duration(*seconds*float64(time.Second))), nil
	case header != nil && *header != "":
		d, err := time.ParseDuration(*header)
		if err != nil || d <= 0 || d > 24*time.Hour {
			return 0, invalid("X-Request-Timeout", "X-Request-Timeout is %q: want a duration such as 20s, at most 24h", clip(*header))
		}
		return d, nil
	}
	return a.limits.Timeout, nil
}
