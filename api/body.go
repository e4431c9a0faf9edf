package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// openBody bounds the body of a request, in bytes and in the time it may take to come. Call
// the result with the error, if any, of reading it: that says what the client did wrong.
func (a *API) openBody(w http.ResponseWriter, r *http.Request) (ended func(error) error, err error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, refused(codeMediaType, "the content encoding is %q: send the body as it is", clip(coding))
	}
	control := http.NewResponseController(w)
	// Not every reader has deadlines; those of real connections do.
	if err := control.SetReadDeadline(time.Now().Add(a.limits.Body)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	r.Body = http.MaxBytesReader(w, r.Body, a.limits.BodyBytes)
	return func(err error) error {
		var tooLarge *http.MaxBytesError
		switch {
		case err == nil: // what comes next is for the server to read
			if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return err
			}
			return nil
		case errors.As(err, &tooLarge):
			return refused(codeBodySize, "the body is larger than %d bytes", a.limits.BodyBytes)
		case errors.Is(err, os.ErrDeadlineExceeded):
			w.Header().Set("Connection", "close")
			return refused(codeIdle, "the body did not come within %v", a.limits.Body)
		}
		return invalid("", "the body cannot be read: %v", err)
	}, nil
}

// readBody reads a body within the limits.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	ended, err := a.openBody(w, r)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r.Body)
	return b, ended(err)
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
