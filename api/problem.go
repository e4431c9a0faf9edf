package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"whorl/api/gen"
	"whorl/swarm"
)

// Codes that only HTTP knows.
const (
	codeForbiddenHost   swarm.Code = "forbidden_host"
	codeForbiddenOrigin swarm.Code = "forbidden_origin"
	codeNoToken         swarm.Code = "invalid_api_key"
	codeNoRoute         swarm.Code = "unknown_url"
	codeMethod          swarm.Code = "method_not_allowed"
	codeBodySize        swarm.Code = "body_too_large"
	codeMediaType       swarm.Code = "unsupported_media_type"
	codeUpgrade         swarm.Code = "upgrade_required"
	codeFrame           swarm.Code = "bad_message" // a WebSocket frame breaks the protocol
	codeQueueFull       swarm.Code = "queue_full"
	codeIdle            swarm.Code = "idle"
)

// meaning is what a code is to those outside.
type meaning struct {
	status int
	kind   string        // OpenAI's error type
	openai swarm.Code    // OpenAI's code, if another
	phrase string        // clients of the Petals gateway search for it
	retry  time.Duration // when the same request may succeed; 0: it will not
}

// meanings is the one table from codes to statuses.
var meanings = map[swarm.Code]meaning{
	swarm.CodeBadRequest:    {status: 400, kind: "invalid_request_error"},
	swarm.CodeUnsupported:   {status: 400, kind: "invalid_request_error", openai: "unsupported_parameter"},
	swarm.CodeTooLong:       {status: 400, kind: "invalid_request_error", openai: "context_length_exceeded", phrase: "Maximum length exceeded"},
	swarm.CodeNotServed:     {status: 404, kind: "invalid_request_error"},
	swarm.CodeNoSession:     {status: 404, kind: "invalid_request_error", phrase: "Session has expired"},
	swarm.CodeCacheFull:     {status: 429, kind: "rate_limit_error", openai: "swarm_capacity", phrase: "attention cache is full", retry: 5 * time.Second},
	swarm.CodeTooMany:       {status: 429, kind: "rate_limit_error", openai: "rate_limit_exceeded", phrase: "Too many opened inference sessions", retry: 10 * time.Second},
	swarm.CodeBlocksMissing: {status: 503, kind: "unavailable_error", phrase: "No servers holding blocks", retry: 5 * time.Second},
	swarm.CodeNotLoaded:     {status: 503, kind: "unavailable_error", openai: "model_loading", retry: 10 * time.Second},
	swarm.CodeDraining:      {status: 503, kind: "unavailable_error", retry: 10 * time.Second},
	swarm.CodeWrongModel:    {status: 503, kind: "unavailable_error", retry: 10 * time.Second},
	swarm.CodeCancelled:     {status: 503, kind: "unavailable_error"},
	swarm.CodePeerLost:      {status: 502, kind: "server_error", retry: 2 * time.Second},
	swarm.CodeBadOutput:     {status: 502, kind: "server_error", retry: 2 * time.Second},
	swarm.CodeBadFrame:      {status: 502, kind: "server_error"},
	swarm.CodeVersion:       {status: 502, kind: "server_error"},
	swarm.CodeUnauthorised:  {status: 502, kind: "server_error"},
	swarm.CodeTimeout:       {status: 504, kind: "server_error", retry: 2 * time.Second},
	swarm.CodeInternal:      {status: 500, kind: "server_error"},
	swarm.CodeStaleEpoch:    {status: 500, kind: "server_error"},
	swarm.CodeGap:           {status: 500, kind: "server_error"},
	codeForbiddenHost:       {status: 403, kind: "permission_error"},
	codeForbiddenOrigin:     {status: 403, kind: "permission_error"},
	codeNoToken:             {status: 401, kind: "authentication_error"},
	codeNoRoute:             {status: 404, kind: "invalid_request_error"},
	codeMethod:              {status: 405, kind: "invalid_request_error"},
	codeBodySize:            {status: 413, kind: "invalid_request_error"},
	codeMediaType:           {status: 415, kind: "invalid_request_error"},
	codeUpgrade:             {status: 426, kind: "invalid_request_error"},
	codeFrame:               {status: 400, kind: "invalid_request_error"},
	codeQueueFull:           {status: 429, kind: "rate_limit_error", retry: time.Second},
	codeIdle:                {status: 408, kind: "invalid_request_error"},
}

// paramError is an error about one field of a request.
type paramError struct {
	param string
	err   *swarm.Error
}

func (e *paramError) Error() string { return e.err.Error() }
func (e *paramError) Unwrap() error { return e.err }

// invalid says that a field has a value it cannot have.
func invalid(param, format string, a ...any) error {
	return &paramError{param, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, format, a...)}
}

// unsupported says that a field asks for what this gateway does not do.
func unsupported(param, format string, a ...any) error {
	return &paramError{param, swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, format, a...)}
}

// refused is an error that only HTTP knows.
func refused(code swarm.Code, format string, a ...any) error {
	return swarm.Errorf(code, swarm.Caller, format, a...)
}

// budgetError says that a turn does not fit its session, with the numbers.
type budgetError struct {
	position, prompt, asked, limit int
}

func (e *budgetError) Error() string {
	return fmt.Sprintf("Maximum length exceeded: prefix %d + prompt %d + new %d exceeds pre-allocated maximum %d", e.position, e.prompt, e.asked, e.limit)
}

func (e *budgetError) Unwrap() error {
	return &swarm.Error{Code: swarm.CodeTooLong, Verdict: swarm.Caller, Message: e.Error()}
}

// failure is an error as replies show it.
type failure struct {
	meaning
	code      swarm.Code
	message   string
	param     string
	retryable bool
	missing   []swarm.Span
	budget    *budgetError
}

// describe looks an error up. Causes, and errors without a code, stay inside: they may
// tell of the machine.
func describe(err error) failure {
	e := swarm.AsError(err)
	m, known := meanings[e.Code]
	if !known {
		m = meanings[swarm.CodeInternal]
	}
	f := failure{meaning: m, code: e.Code, message: oneLine(e.Message), missing: e.Missing}
	if e.Code == swarm.CodeInternal {
		f.message = "internal error: see the node's log under this request's id"
	}
	// A caller's mistake stays one, whatever the code promises: a session that can never
	// fit gets no better by waiting.
	f.retryable = m.retry > 0 && e.Verdict != swarm.Caller || e.Code == codeQueueFull
	var p *paramError
	if errors.As(err, &p) {
		f.param = p.param
	}
	errors.As(err, &f.budget)
	return f
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// headers says in headers when to try again.
func (f failure) headers(h http.Header) {
	h.Set("X-Should-Retry", strconv.FormatBool(f.retryable))
	if f.retryable || f.status == 429 || f.status == 503 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(f.retry/time.Second))))
	}
	if f.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
}

func (f failure) problem(id string) gen.Problem {
	p := gen.Problem{
		Type: "about:blank", Title: http.StatusText(f.status), Status: f.status, Detail: f.message, Code: string(f.code),
		RequestId: id, Retryable: f.retryable, Missing: spans(f.missing),
	}
	if f.param != "" {
		p.Param = &f.param
	}
	return p
}

func (f failure) openAI() gen.OpenAIErrorReply {
	code := string(f.code)
	if f.openai != "" {
		code = string(f.openai)
	}
	e := gen.OpenAIError{Message: f.message, Type: f.kind, Code: &code, Missing: spans(f.missing)}
	if f.param != "" {
		e.Param = &f.param
	}
	return gen.OpenAIErrorReply{Error: e}
}

func (f failure) legacy() gen.SocketFailure {
	text := f.message
	if !strings.Contains(text, f.phrase) {
		text = f.phrase + ": " + text
	}
	e := gen.SocketError{Code: string(f.code), Message: f.message, Retryable: f.retryable, Blocks: spans(f.missing)}
	if f.param != "" {
		e.Param = &f.param
	}
	if f.retryable {
		ms := int(f.retry / time.Millisecond)
		e.RetryAfterMs = &ms
	}
	if b := f.budget; b != nil {
		e.Position, e.PromptTokens, e.MaxNewTokens, e.MaxLength = &b.position, &b.prompt, &b.asked, &b.limit
	}
	return gen.SocketFailure{Traceback: text, Error: e}
}

func spans(in []swarm.Span) []gen.Span {
	var out []gen.Span
	for _, s := range in {
		out = append(out, gen.Span{Start: s.Start, End: s.End})
	}
	return out
}

// describe is describe for an error of a request, which is logged if it is our fault.
func (a *API) describe(r *http.Request, err error) failure {
	f := describe(err)
	if f.status == http.StatusInternalServerError {
		a.log.Error("request failed", "id", requestID(r), "path", r.URL.Path, "error", err)
	}
	return f
}

// abandon ends a request whose caller went away, or closed its half of the connection, which
// looks the same from here: what that brought about is no answer. Of what is wrong with the
// request itself the caller is told.
func abandon(r *http.Request, err error) {
	if e := swarm.AsError(err); context.Cause(r.Context()) == context.Canceled && (e.Verdict != swarm.Caller || e.Code == swarm.CodeCancelled) {
		panic(http.ErrAbortHandler)
	}
}

// fail answers with an error in the form of the route's audience.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	abandon(r, err)
	f := a.describe(r, err)
	f.headers(w.Header())
	switch form, _ := a.rules.form(r.URL.Path); form {
	case "openai":
		writeJSON(w, f.status, "application/json", f.openAI())
	case "legacy":
		writeJSON(w, f.status, "application/json", f.legacy())
	default:
		writeJSON(w, f.status, "application/problem+json", f.problem(requestID(r)))
	}
}

// writeJSON answers. An error of the write means that the client is gone: there is nobody
// left to tell.
func writeJSON(w http.ResponseWriter, status int, mediaType string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}

func reply(w http.ResponseWriter, v any) { writeJSON(w, http.StatusOK, "application/json", v) }
