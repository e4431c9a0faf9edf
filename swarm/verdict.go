package swarm

import (
	"errors"
	"fmt"
)

// Verdict says what the caller of a failed call should do. It is set where the fact is
// known and travels with the error, also over the wire.
type Verdict uint8

const (
	Fatal     Verdict = iota // a bug or a broken node: nobody can retry this
	Again                    // the same peer may succeed later
	Elsewhere                // another peer may succeed: this one cannot
	Replay                   // the session's state on this peer is lost or behind
	Caller                   // the request is wrong: no peer will accept it
)

var verdictNames = [...]string{"fatal", "again", "elsewhere", "replay", "caller"}

// String is the lower-case name.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Code names a failure for programs: stable snake_case text in APIs and on the wire.
type Code string

// The codes that cross package borders.
const (
	CodeInternal      Code = "internal"
	CodeBadFrame      Code = "bad_frame"          // a frame breaks the protocol
	CodeVersion       Code = "protocol_version"   // the peer speaks another version
	CodeStaleEpoch    Code = "stale_epoch"        // a frame of an older route
	CodeGap           Code = "gap"                // rows ahead of the session's length
	CodeNoSession     Code = "no_session"         // unknown, expired or closed
	CodeWrongModel    Code = "wrong_model"        // not the manifest or span held
	CodeWrongSwarm    Code = "wrong_swarm"        // the peer belongs to a swarm of another name
	CodeCacheFull     Code = "cache_full"         // no pages within the wait limit
	CodeTooLong       Code = "max_length"         // the session's budget is exceeded
	CodeTooMany       Code = "too_many_sessions"  // the caller's share is used up
	CodeDraining      Code = "draining"           // takes no new sessions
	CodeLowMemory     Code = "low_memory"         // takes no sessions and parks some until it has memory again
	CodeNotLoaded     Code = "loading"            // not online yet
	CodePeerLost      Code = "peer_lost"          // a peer cannot be reached or vanished
	CodeTimeout       Code = "timeout"            // a deadline passed
	CodeBlocksMissing Code = "blocks_missing"     // no live server holds some blocks
	CodeBadOutput     Code = "bad_output"         // rows that are not finite or misshapen
	CodeBadRequest    Code = "invalid_value"      // a parameter is out of range
	CodeNotServed     Code = "model_not_found"    // this node does not serve that model
	CodeCancelled     Code = "cancelled"          // by the caller or an operator
	CodeUnauthorised  Code = "unauthorised_peer"  // frames from somebody who may not send them
	CodeUnsupported   Code = "unsupported_option" // a parameter this node cannot honour
)

// Error is a failure with a code and a verdict.
type Error struct {
	Code    Code
	Verdict Verdict
	Message string // one sentence for people
	Peer    PeerID // who is to blame, if known
	Missing []Span // with CodeBlocksMissing
	Err     error  // cause, appended to the message; not sent over the wire

	cause error // what Errorf wrapped: already part of the message
}

// Error is the message, with the cause where there is one.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return e.cause
}

// Is matches errors of the same code, so that errors.Is(err, &Error{Code: c}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == ""
}

// Errorf makes an Error. What %w wraps is the cause, for errors.Is and errors.As.
func Errorf(code Code, v Verdict, format string, a ...any) *Error {
	text := fmt.Errorf(format, a...)
	e := &Error{Code: code, Verdict: v, Message: text.Error()}
	switch text.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		e.cause = text
	}
	return e
}

// AsError finds the Error in a chain; anything else is internal and fatal.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Verdict: Fatal, Message: err.Error()}
}

// CodeOf is AsError(err).Code, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}
