package sample

import (
	"fmt"
	"math"
)

// Params chooses how a token is drawn. The zero value is greedy.
type Params struct {
	Temperature       float64 // 0 = greedy
	TopK              int     // 0 = all
	TopP              float64 // 0 or 1 = all
	MinP              float64 // 0 = none
	RepetitionPenalty float64 // 0 or 1 = none; over all ids of the session so far
	Seed              uint64  // equal seeds and logits give equal ids
}

// FieldError names a parameter that is out of range.
type FieldError struct {
	Field string // as in JSON: "top_p"
	Value any
	Want  string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s is %v: want %s", e.Field, e.Value, e.Want)
}

// Validate refuses values that mean nothing; the error is a *FieldError.
func (p Params) Validate() error {
	bad := func(f string, v any, want string) error { return &FieldError{f, v, want} }
	switch {
	case !(p.Temperature >= 0 && p.Temperature <= 100):
		return bad("temperature", p.Temperature, "0 (greedy) to 100")
	case p.TopK < 0:
		return bad("top_k", p.TopK, "0 (all) or more")
	case !(p.TopP >= 0 && p.TopP <= 1):
		return bad("top_p", p.TopP, "0 to 1")
	case !(p.MinP >= 0 && p.MinP <= 1):
		return bad("min_p", p.MinP, "0 to 1")
	case !(p.RepetitionPenalty >= 0) || math.IsInf(p.RepetitionPenalty, 0):
		return bad("repetition_penalty", p.RepetitionPenalty, "a positive number, 1 for none")
	}
	return nil
}

// Logprob is the natural log-probability of a chosen id, before any sampling parameter,
// with the best alternatives.
type Logprob struct {
	ID      int32
	Logprob float64
	Top     []Alternative // in falling order
}

// Alternative is an id that could have been chosen.
type Alternative struct {
	ID      int32
	Logprob float64
}
