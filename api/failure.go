package api

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"whorl/api/gen"
	"whorl/internal/operations"
	"whorl/swarm"
)

// Codes that only HTTP knows.
const (
	CodeForbiddenHost   swarm.Code = "forbidden_host"
	CodeForbiddenOrigin swarm.Code = "forbidden_origin"
	CodeNoToken         swarm.Code = "invalid_api_key"
	CodeScope           swarm.Code = "insufficient_scope"
	CodeNoKeys          swarm.Code = "no_keys" // this node has no book of keys
	CodeTaken           swarm.Code = "name_taken"
	CodeNotAvoided      swarm.Code = "not_avoided"
	CodeNoRoute         swarm.Code = "unknown_url"
	CodeNotStored       swarm.Code = "not_found"
	CodeMethod          swarm.Code = "method_not_allowed"
	CodeBodySize        swarm.Code = "body_too_large"
	CodeMediaType       swarm.Code = "unsupported_media_type"
	CodeUpgrade         swarm.Code = "upgrade_required"
	CodeFrame           swarm.Code = "bad_message" // a WebSocket frame breaks the protocol
	CodeQueueFull       swarm.Code = "queue_full"
	CodeIdle            swarm.Code = "idle"
	CodeNotFound        swarm.Code = "not_found"        // no such block, session, peer or response here
	CodeNeedsRestart    swarm.Code = "requires_restart" // a setting that a running node cannot change
	CodeChanged         swarm.Code = "changed"          // If-Match names another state
	CodeKeyReused       swarm.Code = "idempotency_key_reused"
	CodeInFlight        swarm.Code = "in_flight"         // the request under this Idempotency-Key is being answered
	CodeUnreached       swarm.Code = "unreached"         // a node that the caller named does not answer
	CodeRunning         swarm.Code = "operation_running" // another that excludes this one
	CodeInterrupted     swarm.Code = operations.CodeInterrupted
	CodeFinal           swarm.Code = "not_cancellable"
	CodeShelf           swarm.Code = "storage_unavailable" // what is kept cannot be reached now
)

// Meaning is what a code is to those outside.
type Meaning struct {
	Status int
	Kind   string        // OpenAI's error type
	OpenAI swarm.Code    // OpenAI's code, if another
	Phrase string        // clients of the Petals gateway search for it
	Retry  time.Duration // when the same request may succeed; 0: it will not
}

// Meanings is the one table from codes to statuses.
var Meanings = map[swarm.Code]Meaning{
	swarm.CodeBadRequest:    {Status: 400, Kind: "invalid_request_error"},
	swarm.CodeUnsupported:   {Status: 400, Kind: "invalid_request_error", OpenAI: "unsupported_parameter"},
	swarm.CodeTooLong:       {Status: 400, Kind: "invalid_request_error", OpenAI: "context_length_exceeded", Phrase: "Maximum length exceeded"},
	swarm.CodeNotServed:     {Status: 404, Kind: "invalid_request_error"},
	swarm.CodeNoSession:     {Status: 404, Kind: "invalid_request_error", Phrase: "Session has expired"},
	swarm.CodeCacheFull:     {Status: 429, Kind: "rate_limit_error", OpenAI: "swarm_capacity", Phrase: "attention cache is full", Retry: 5 * time.Second},
	swarm.CodeTooMany:       {Status: 429, Kind: "rate_limit_error", OpenAI: "rate_limit_exceeded", Phrase: "Too many opened inference sessions", Retry: 10 * time.Second},
	swarm.CodeBlocksMissing: {Status: 503, Kind: "unavailable_error", Phrase: "No servers holding blocks", Retry: 5 * time.Second},
	swarm.CodeNotLoaded:     {Status: 503, Kind: "unavailable_error", OpenAI: "model_loading", Retry: 10 * time.Second},
	swarm.CodeDraining:      {Status: 503, Kind: "unavailable_error", Retry: 10 * time.Second},
	swarm.CodeLowMemory:     {Status: 503, Kind: "unavailable_error", Retry: 10 * time.Second},
	swarm.CodeWrongModel:    {Status: 503, Kind: "unavailable_error", Retry: 10 * time.Second},
	swarm.CodeCancelled:     {Status: 503, Kind: "unavailable_error"},
	swarm.CodePeerLost:      {Status: 502, Kind: "server_error", Retry: 2 * time.Second},
	swarm.CodeBadOutput:     {Status: 502, Kind: "server_error", Retry: 2 * time.Second},
	swarm.CodeBadFrame:      {Status: 502, Kind: "server_error"},
	swarm.CodeVersion:       {Status: 502, Kind: "server_error"},
	swarm.CodeUnauthorised:  {Status: 502, Kind: "server_error"},
	swarm.CodeTimeout:       {Status: 504, Kind: "server_error", Retry: 2 * time.Second},
	swarm.CodeInternal:      {Status: 500, Kind: "server_error"},
	swarm.CodeStaleEpoch:    {Status: 500, Kind: "server_error"},
	swarm.CodeGap:           {Status: 500, Kind: "server_error"},
	CodeForbiddenHost:       {Status: 403, Kind: "permission_error"},
	CodeForbiddenOrigin:     {Status: 403, Kind: "permission_error"},
	CodeNoToken:             {Status: 401, Kind: "authentication_error"},
	CodeScope:               {Status: 403, Kind: "permission_error"},
	CodeNoKeys:              {Status: 409, Kind: "invalid_request_error"},
	CodeTaken:               {Status: 409, Kind: "invalid_request_error"},
	CodeNotAvoided:          {Status: 404, Kind: "invalid_request_error"},
	CodeNoRoute:             {Status: 404, Kind: "invalid_request_error"},
	CodeMethod:              {Status: 405, Kind: "invalid_request_error"},
	CodeBodySize:            {Status: 413, Kind: "invalid_request_error"},
	CodeMediaType:           {Status: 415, Kind: "invalid_request_error"},
	CodeUpgrade:             {Status: 426, Kind: "invalid_request_error"},
	CodeFrame:               {Status: 400, Kind: "invalid_request_error"},
	CodeQueueFull:           {Status: 429, Kind: "rate_limit_error", Retry: time.Second},
	CodeIdle:                {Status: 408, Kind: "invalid_request_error"},
	CodeNotFound:            {Status: 404, Kind: "invalid_request_error"},
	CodeNeedsRestart:        {Status: 409, Kind: "invalid_request_error"},
	CodeChanged:             {Status: 412, Kind: "invalid_request_error"},
	CodeKeyReused:           {Status: 422, Kind: "invalid_request_error"},
	CodeInFlight:            {Status: 409, Kind: "invalid_request_error", Retry: time.Second},
	CodeRunning:             {Status: 409, Kind: "invalid_request_error", Retry: time.Second},
	CodeInterrupted:         {Status: 503, Kind: "unavailable_error", Retry: time.Second},
	CodeFinal:               {Status: 409, Kind: "invalid_request_error"},
	CodeShelf:               {Status: 503, Kind: "unavailable_error", Retry: 2 * time.Second},
	CodeUnreached:           {Status: 502, Kind: "server_error", Retry: 2 * time.Second},
}

// paramError is an error about one field of a request.
type paramError struct {
	param string
	err   *swarm.Error
}

func (e *paramError) Error() string { return e.err.Error() }
func (e *paramError) Unwrap() error { return e.err }

// Invalid says that a field has a value it cannot have.
func Invalid(param, format string, a ...any) error {
	return &paramError{param, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, format, a...)}
}

// Unsupported says that a field asks for what this gateway does not do.
func Unsupported(param, format string, a ...any) error {
	return &paramError{param, swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, format, a...)}
}

// Refused is an error that only HTTP knows.
func Refused(code swarm.Code, format string, a ...any) error {
	return swarm.Errorf(code, swarm.Caller, format, a...)
}

// waitError is an error that goes away by itself after a time that is known.
type waitError struct {
	after time.Duration
	err   *swarm.Error
}

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }

// Failure is an error as replies show it.
type Failure struct {
	Meaning
	Code      swarm.Code
	Message   string
	Param     string // the field that is wrong
	Retryable bool
	Missing   []swarm.Span
}

// Form writes a failure as a dialect does; requestID names the request in logs.
type Form func(f Failure, requestID string) (mediaType string, body any)

// Describe looks an error up. Causes, and errors without a code, stay inside: they may
// tell of the machine.
func Describe(err error) Failure {
	e := swarm.AsError(err)
	m, known := Meanings[e.Code]
	if !known {
		m = Meanings[swarm.CodeInternal]
	}
	f := Failure{Meaning: m, Code: e.Code, Message: OneLine(e.Message), Missing: e.Missing}
	if e.Code == swarm.CodeInternal {
		f.Message = "internal error: see the node's log under this request's id"
	}
	// A caller's mistake stays one, whatever the code promises: a session that can never
	// fit gets no better by waiting.
	f.Retryable = m.Retry > 0 && e.Verdict != swarm.Caller || e.Code == CodeQueueFull
	var p *paramError
	if errors.As(err, &p) {
		f.Param = p.param
	}
	var wait *waitError
	if errors.As(err, &wait) {
		f.Retry = wait.after
	}
	return f
}

// OneLine joins the lines of a text.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Headers says in headers when to try again.
func (f Failure) Headers(h http.Header) {
	h.Set("X-Should-Retry", strconv.FormatBool(f.Retryable))
	if f.Retryable || f.Status == 429 || f.Status == 503 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(f.Retry.Seconds())))))
	}
	if f.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
}

// Socket is a failure as WebSockets show it.
func (f Failure) Socket() gen.SocketError {
	e := gen.SocketError{Code: string(f.Code), Message: f.Message, Retryable: f.Retryable, Blocks: Spans(f.Missing)}
	if f.Param != "" {
		e.Param = &f.Param
	}
	if f.Retryable {
		ms := int(f.Retry / time.Millisecond)
		e.RetryAfterMs = &ms
	}
	return e
}

// Spans are spans as the contract has them.
func Spans(in []swarm.Span) []gen.Span {
	var out []gen.Span
	for _, s := range in {
		out = append(out, gen.Span{Start: s.Start, End: s.End})
	}
	return out
}

// Describe is Describe for an error of a request, which is logged if it is our fault.
func (a *API) Describe(r *http.Request, err error) Failure {
	f := Describe(err)
	if f.Status == http.StatusInternalServerError {
		a.Log.Error("request failed", "id", RequestID(r), "path", r.URL.Path, "error", err)
	}
	return f
}

// Abandon ends a request whose caller went away, or closed its half of the connection, which
// looks the same from here: what that brought about is no answer. Of what is wrong with the
// request itself the caller is told.
func Abandon(r *http.Request, err error) {
	if e := swarm.AsError(err); context.Cause(r.Context()) == context.Canceled && (e.Verdict != swarm.Caller || e.Code == swarm.CodeCancelled) {
		panic(http.ErrAbortHandler)
	}
}

// Fail answers with an error in the form of the route's audience.
func (a *API) Fail(w http.ResponseWriter, r *http.Request, err error) {
	Abandon(r, err)
	f := a.Describe(r, err)
	Unverified(w)
	f.Headers(w.Header())
	form, _ := a.rules.form(r.URL.Path)
	mediaType, body := a.forms[form](f, RequestID(r))
	WriteJSON(w, f.Status, mediaType, body)
}

// WriteJSON answers. An error of the write means that the client is gone: there is nobody
// left to tell.
func WriteJSON(w http.ResponseWriter, status int, mediaType string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}

// Reply answers with status 200.
func Reply(w http.ResponseWriter, v any) { WriteJSON(w, http.StatusOK, "application/json", v) }

// Value is what a field has, or d if it is absent.
func Value[T any](p *T, d T) T {
	if p == nil {
		return d
	}
	return *p
}
