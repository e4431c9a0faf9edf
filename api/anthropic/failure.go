package anthropic

import (
	"net/http"

	"whorl/api"
	"whorl/api/gen"
)

// kinds are the types of errors by status, of those that have one of their own.
var kinds = map[int]gen.MessagesErrorType{
	http.StatusUnauthorized:          gen.MessagesErrorTypeAuthenticationError,
	http.StatusForbidden:             gen.MessagesErrorTypePermissionError,
	http.StatusNotFound:              gen.MessagesErrorTypeNotFoundError,
	http.StatusRequestEntityTooLarge: gen.MessagesErrorTypeRequestTooLarge,
	http.StatusTooManyRequests:       gen.MessagesErrorTypeRateLimitError,
	http.StatusServiceUnavailable:    gen.MessagesErrorTypeOverloadedError,
	http.StatusGatewayTimeout:        gen.MessagesErrorTypeTimeoutError,
}

// Error is a failure as Anthropic's clients expect it.
func Error(f api.Failure, requestID string) (mediaType string, body any) {
	return "application/json", gen.MessagesFailure{Type: gen.MessagesFailureTypeError, Error: describe(f), RequestId: requestID}
}

func describe(f api.Failure) gen.MessagesError {
	kind, ok := kinds[f.Status]
	switch {
	case ok:
	case f.Status >= 500:
		kind = gen.MessagesErrorTypeApiError
	default:
		kind = gen.MessagesErrorTypeInvalidRequestError
	}
	return gen.MessagesError{Type: kind, Message: f.Message}
}
