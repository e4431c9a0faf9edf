package api

import (
	"errors"

	"whorl/client"
	"whorl/client/sample"
)

// FieldError names the parameter of an error of package sample.
func FieldError(err error, otherNames map[string]string) error {
	var f *sample.FieldError
	if !errors.As(err, &f) {
		return err
	}
	named := *f
	if other, ok := otherNames[f.Field]; ok {
		named.Field = other
	}
	if named.Field == "logprobs" {
		return Unsupported(named.Field, "%w", &named)
	}
	return Invalid(named.Field, "%w", &named)
}

// Draws are what dialects of few options have for how tokens are drawn, decoded over DefaultDraws.
type Draws struct {
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	TopK        int     `json:"top_k"`
}

// DefaultDraws are those of the other routes.
func DefaultDraws() Draws {
	d := sample.DefaultAsked()
	return Draws{Temperature: d.Temperature, TopP: d.TopP, TopK: d.TopK}
}

// Put makes a request draw so; a seed of nil is a new one.
func (d Draws) Put(q *Ask, seed *int64) (err error) {
	asked := sample.DefaultAsked()
	asked.Temperature, asked.TopP, asked.TopK = d.Temperature, d.TopP, d.TopK
	if q.Request.Sampling, q.Request.Beams, err = asked.Settle(); err != nil {
		return err
	}
	q.Request.Sampling.Seed = SeedOr(seed)
	return nil
}

// CheckBeams refuses what would reserve more than one request should.
func (a *API) CheckBeams(n int) error {
	if n > a.Limits.Beams {
		return Unsupported("num_beams", "num_beams is %d: this gateway searches with at most %d", n, a.Limits.Beams)
	}
	return nil
}

// Guide is the guidance that a request asks for, nil for none.
func Guide(e Engine, g sample.GuidanceParams) (*client.Guidance, error) {
	switch {
	case g.Negative != "" && len(g.Ids) > 0:
		return nil, Invalid("negative_prompt", "give either negative_prompt or negative_prompt_ids")
	case g.Scale == 1 && (g.Negative != "" || len(g.Ids) > 0):
		return nil, Invalid("guidance_scale", "guidance_scale is missing, or 1: a negative prompt has no effect then")
	case g.Scale == 1:
		return nil, nil
	}
	out := &client.Guidance{Scale: g.Scale, Other: g.Ids}
	if g.Negative != "" {
		var err error
		if out.Other, err = e.Encode(g.Negative, true); err != nil {
			return nil, EncodeError(e, "negative_prompt", err)
		}
	}
	return out, nil
}

// checkGuidance refuses another context for which there is no room beside the tokens of an answer.
func checkGuidance(e Engine, room int, r *client.Request) error {
	if r.Guidance == nil || len(r.Guidance.Other) == 0 {
		return nil
	}
	return checkPrompt(e, room, "negative_prompt", r.Guidance.Other, r.MaxNewTokens)
}

// FinishSampling turns words into ids and checks the parameters against a model: what is
// wrong with them is found before a session is opened. An error may be a *sample.FieldError, for
// fieldError to name.
func (a *API) FinishSampling(e Engine, r *client.Request, badWords []string) error {
	if len(badWords) > 0 {
		words, err := e.BadWords(badWords)
		if err != nil {
			return EncodeError(e, "bad_words", err)
		}
		r.Sampling.BadWords = words
	}
	if err := r.Validate(e.Model().Vocab); err != nil {
		return err
	}
	return a.CheckBeams(r.Beams.Beams)
}
