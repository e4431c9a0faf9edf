package api

import (
	"errors"
	"slices"
	"strconv"

	"whorl/client"
	"whorl/client/sample"
)

// biases reads logit_bias: by token id as text.
func biases(m map[string]float64) ([]sample.Bias, error) {
	var out []sample.Bias
	for key, v := range m {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return nil, invalid("logit_bias", "logit_bias has the key %q: want token ids", clip(key))
		}
		out = append(out, sample.Bias{ID: int32(id), Value: v})
	}
	slices.SortFunc(out, func(a, b sample.Bias) int { return int(a.ID) - int(b.ID) })
	for i := 1; i < len(out); i++ { // "5" and "05"
		if out[i].ID == out[i-1].ID {
			return nil, invalid("logit_bias", "logit_bias has the token id %d twice", out[i].ID)
		}
	}
	return out, nil
}

// openAINames are fields of package sample that the OpenAI routes have by another name.
var openAINames = map[string]string{"num_return_sequences": "n", "min_new_tokens": "min_tokens"}

// fieldError names the parameter of an error of package sample.
func fieldError(err error, otherNames map[string]string) error {
	var f *sample.FieldError
	if !errors.As(err, &f) {
		return err
	}
	named := *f
	if other, ok := otherNames[f.Field]; ok {
		named.Field = other
	}
	if named.Field == "logprobs" {
		return unsupported(named.Field, "%w", &named)
	}
	return invalid(named.Field, "%w", &named)
}

// checkBeams refuses what would reserve more than one request should.
func (a *API) checkBeams(n int) error {
	if n > a.limits.Beams {
		return unsupported("num_beams", "num_beams is %d: this gateway searches with at most %d", n, a.limits.Beams)
	}
	return nil
}

// finishSampling turns words into ids and checks the parameters against a model: what is
// wrong with them is found before a session is opened. An error may be a *sample.FieldError, for
// fieldError to name.
func (a *API) finishSampling(e Engine, r *client.Request, badWords []string) error {
	if len(badWords) > 0 {
		words, err := e.BadWords(badWords)
		if err != nil {
			return encodeError(e, "bad_words", err)
		}
		r.Sampling.BadWords = words
	}
	if err := r.Validate(e.Model().Vocab); err != nil {
		return err
	}
	return a.checkBeams(r.Beams.Beams)
}
