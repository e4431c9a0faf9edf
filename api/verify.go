package api

import (
	"net/http"
	"strconv"

	"whorl/client"
)

// verifiedHeader says how many chains agreed about every token of an answer.
const verifiedHeader = "X-Whorl-Verified"

// Verifying settles how many chains compute an answer: by its field, which is nil if absent, its
// header, or the gateway's default. A reply that is no failure then says so in a header: it may,
// since no token is told that so many chains did not agree about.
func (a *API) Verifying(w http.ResponseWriter, field *int, header *string) (int, error) {
	n, name := a.Verify, "whorl_verify"
	switch {
	case field != nil:
		n = *field
	case header != nil && *header != "":
		name = "X-Whorl-Verify"
		var err error
		if n, err = strconv.Atoi(*header); err != nil {
			return 0, Invalid(name, "X-Whorl-Verify is %q: want 1 to %d", Clip(*header), client.MaxVerify)
		}
	default:
		n = max(1, n)
	}
	if n < 1 || n > client.MaxVerify {
		return 0, Invalid(name, "%s is %d: want 1 to %d", name, n, client.MaxVerify)
	}
	if n > 1 {
		w.Header().Set(verifiedHeader, strconv.Itoa(n))
	}
	return n, nil
}

// Unverified takes back what Verifying said, for a failure.
func Unverified(w http.ResponseWriter) { w.Header().Del(verifiedHeader) }
