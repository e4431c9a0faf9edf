package control

import (
	"net/http"

	"whorl/api"
	"whorl/api/gen"
)

// Problem is a failure as RFC 9457 has it.
func Problem(f api.Failure, id string) (mediaType string, body any) {
	p := gen.Problem{
		Type: "about:blank", Title: http.StatusText(f.Status), Status: f.Status, Detail: f.Message, Code: string(f.Code),
		RequestId: id, Retryable: f.Retryable, Missing: api.Spans(f.Missing),
	}
	if f.Param != "" {
		p.Param = &f.Param
	}
	return "application/problem+json", p
}
