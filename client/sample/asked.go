package sample

import "encoding/json"

// Asked are parameters as callers write them in JSON, with the names that the transformers
// library gave them. Decode over DefaultAsked, then Settle.
type Asked struct {
	Params
	BeamParams
	GuidanceParams
}

// DefaultAsked is what a caller gets who asks for nothing: a draw among all tokens.
func DefaultAsked() Asked {
	return Asked{
		Params:         Params{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1},
		BeamParams:     BeamParams{Beams: 1, LengthPenalty: 1, Groups: 1, Return: 1},
		GuidanceParams: GuidanceParams{Scale: 1},
	}
}

// Settle gives what was asked for the meaning that the sampler has for it: top_k -1 is all,
// top_p 0 the best alone, one beam no search. It refuses what only a caller can write; all
// else is for Validate. The error is a *FieldError.
func (a Asked) Settle() (Params, BeamParams, error) {
	p, b := a.Params, a.BeamParams
	if p.TopK == -1 {
		p.TopK = 0
	}
	if p.TopP == 0 {
		p.TopK, p.TopP = 1, 1
	}
	if b.Groups == 1 {
		b.Groups = 0 // the search's word for none
	}
	switch {
	case p.RepetitionPenalty == 0: // the sampler's word for none
		p.RepetitionPenalty = -1
		return p, b, p.Validate()
	case b.Beams == 1 && b.Return <= 1 && b.Groups <= 1 && b.Diversity == 0:
		return p, BeamParams{}, nil
	case b.Beams <= 1:
		return p, b, b.Validate()
	}
	return p, b, nil
}

// UnmarshalJSON takes true, false and the texts that ParseEarly reads.
func (e *Early) UnmarshalJSON(b []byte) error {
	text := string(b)
	if text == "null" {
		return nil
	}
	if b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	early, err := ParseEarly(text)
	if err == nil {
		*e = early
	}
	return err
}
