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

// early reads early_stopping, a boolean or text.
func early(v any) (sample.Early, error) {
	text, ok := v.(string)
	switch b, isBool := v.(bool); {
	case v == nil:
		return sample.EarlyFalse, nil
	case isBool:
		text = strconv.FormatBool(b)
	case !ok:
		return 0, invalid("early_stopping", "early_stopping is %s: want true, false or \"never\"", kind(v))
	}
	e, err := sample.ParseEarly(text)
	return e, fieldError(err)
}

// fieldError names the parameter of an error of package sample.
func fieldError(err error) error {
	var f *sample.FieldError
	if errors.As(err, &f) {
		return invalid(f.Field, "%w", f)
	}
	return err
}

// checkBeams refuses what would reserve more than one request should.
func (a *API) checkBeams(n int) error {
	if n > a.limits.Beams {
		return unsupported("num_beams", "num_beams is %d: this gateway searches with at most %d", n, a.limits.Beams)
	}
	return nil
}

// finishSampling turns words into ids and checks the parameters against a model: what is
// wrong with them is found before a session is opened.
func (a *API) finishSampling(e Engine, r *client.Request, badWords []string) error {
	if len(badWords) > 0 {
		words, err := e.BadWords(badWords)
		if err != nil {
			return encodeError(e, "bad_words", err)
		}
		r.Sampling.BadWords = words
	}
	if err := fieldError(errors.Join(r.Sampling.Validate(), r.Sampling.Fits(e.Model().Vocab))); err != nil {
		return err
	}
	if r.Beams.Beams <= 1 {
		return nil
	}
	if err := a.checkBeams(r.Beams.Beams); err != nil {
		return err
	}
	if r.Beams.Return > r.Beams.Beams {
		return invalid("n", "n is %d: want at most num_beams, which is %d", r.Beams.Return, r.Beams.Beams)
	}
	switch err := fieldError(r.Beams.Validate()); {
	case err != nil:
		return err
	case r.Sampling.Temperature != 0:
		return invalid("temperature", "temperature is %v: a beam search takes the best and does not draw, want 0", r.Sampling.Temperature)
	case r.TopLogprobs >= 0:
		return unsupported("logprobs", "logprobs are not supported in a beam search")
	}
	return nil
}
