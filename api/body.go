package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"whorl/swarm/budget"
)

// OpenBody bounds the body of a request, in bytes and in the time it may take to come. Call
// the result with the error, if any, of reading it: that says what the client did wrong.
func (a *API) OpenBody(w http.ResponseWriter, r *http.Request) (ended func(error) error, err error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, Refused(CodeMediaType, "the content encoding is %q: send the body as it is", Clip(coding))
	}
	control := http.NewResponseController(w)
	// Not every reader has deadlines; those of real connections do.
	if err := control.SetReadDeadline(time.Now().Add(a.Limits.Body)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	r.Body = http.MaxBytesReader(w, a.bodies.of(r), a.Limits.BodyBytes)
	return func(err error) error {
		var tooLarge *http.MaxBytesError
		switch {
		case err == nil: // what comes next is for the server to read
			if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return err
			}
			return nil
		case errors.As(err, &tooLarge):
			return Refused(CodeBodySize, "the body is larger than %d bytes", a.Limits.BodyBytes)
		case errors.As(err, new(*budget.Full)):
			w.Header().Set("Connection", "close") // the rest of the body is not waited for
			return Refused(CodeQueueFull, "%v: send the request again later", err)
		case errors.Is(err, os.ErrDeadlineExceeded):
			w.Header().Set("Connection", "close")
			return Refused(CodeIdle, "the body did not come within %v", a.Limits.Body)
		}
		return Invalid("", "the body cannot be read: %v", err)
	}, nil
}

// ReadBody reads a body within the limits.
func (a *API) ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	ended, err := a.OpenBody(w, r)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r.Body)
	return b, ended(err)
}

// ReadJSON reads a JSON body, checks it against a schema of the contract and decodes it into
// each of the values. Fields that the schema does not have are named in X-Warning.
func (a *API) ReadJSON(w http.ResponseWriter, r *http.Request, schema string, into ...any) error {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media != "application/json" && !strings.HasSuffix(media, "+json") {
		return Refused(CodeMediaType, "the content type is %q: send application/json", Clip(r.Header.Get("Content-Type")))
	}
	b, err := a.ReadBody(w, r)
	if err != nil {
		return err
	}
	return a.bodies.decode(len(b), func() error {
		unknown, err := a.Decode(b, schema, into...)
		if err == nil {
			Warn(w, unknown)
		}
		return err
	})
}

// maxWarnings is how many ignored fields a reply names.
const maxWarnings = 10

// Warnings says which fields were ignored.
func Warnings(unknown []string) []string {
	var out []string
	for i, name := range unknown {
		if i == maxWarnings {
			return append(out, fmt.Sprintf("%d more unknown fields were ignored", len(unknown)-i))
		}
		out = append(out, fmt.Sprintf("the unknown field %s was ignored", strconv.QuoteToASCII(Clip(name))))
	}
	return out
}

// Warn says in headers which fields were ignored.
func Warn(w http.ResponseWriter, unknown []string) {
	for _, text := range Warnings(unknown) {
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
			return 0, Invalid("X-Request-Timeout", "X-Request-Timeout is %q: want a duration such as 20s, at most 24h", Clip(*header))
		}
		return d, nil
	}
	return a.Limits.Timeout, nil
}

// WithDeadline bounds a request by what it asks for; see deadline.
func (a *API) WithDeadline(r *http.Request, seconds *float64, header *string) (context.Context, context.CancelFunc, error) {
	d, err := a.deadline(seconds, header)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), d)
	return ctx, cancel, nil
}
