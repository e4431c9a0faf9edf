package openai

import (
	"whorl/api"
	"whorl/api/gen"
)

// Error is a failure as OpenAI's clients expect it.
func Error(f api.Failure, _ string) (mediaType string, body any) {
	return "application/json", errorReply(f)
}

func errorReply(f api.Failure) gen.OpenAIErrorReply {
	code := string(f.Code)
	if f.OpenAI != "" {
		code = string(f.OpenAI)
	}
	e := gen.OpenAIError{Message: f.Message, Type: f.Kind, Code: &code, Missing: api.Spans(f.Missing)}
	if f.Param != "" {
		e.Param = &f.Param
	}
	return gen.OpenAIErrorReply{Error: e}
}
