package sample

import (
	"fmt"
	"math"
)

// Params chooses how a token is drawn. The zero value is greedy.
type Params struct {
	Temperature       float64   `json:"temperature"`          // 0 = greedy
	TopK              int       `json:"top_k"`                // 0 = all
	TopP              float64   `json:"top_p"`                // 0 or 1 = all
	MinP              float64   `json:"min_p"`                // 0 = none
	TypicalP          float64   `json:"typical_p"`            // 0 or 1 = all
	TopH              float64   `json:"top_h"`                // 0 = all; share of the entropy that what is kept may have
	Epsilon           float64   `json:"epsilon_cutoff"`       // 0 = all; least probability
	Eta               float64   `json:"eta_cutoff"`           // 0 = all; least probability, less where much is possible
	RepetitionPenalty float64   `json:"repetition_penalty"`   // 0 or 1 = none; over all ids of the session so far
	PresencePenalty   float64   `json:"presence_penalty"`     // 0 = none; taken from the logits of ids that the answer has
	FrequencyPenalty  float64   `json:"frequency_penalty"`    // 0 = none; taken once for every time the answer has the id
	NoRepeatNGram     int       `json:"no_repeat_ngram_size"` // 0 = none; no run of so many ids occurs twice in the session
	MinNewTokens      int       `json:"min_new_tokens"`       // no id ends the answer before it has so many
	Decay             Decay     `json:"exponential_decay_length_penalty"`
	Suppress          IDs       `json:"suppress_tokens"`       // never
	BeginSuppress     IDs       `json:"begin_suppress_tokens"` // never as the first id of the answer
	ForcedEOS         IDs       `json:"forced_eos_token_id"`   // one of them is the last id of an answer of Most ids
	Runs              RunBiases `json:"sequence_bias"`
	MaxTime           float64   `json:"max_time"` // seconds, 0 = any; whoever has a clock ends the answer at its first token behind them
	Most              int       `json:"-"`        // new ids that the answer may have, for ForcedEOS
	BadWords          [][]int32 `json:"-"`
	Bias              []Bias    `json:"-"` // added to logits, each id at most once
	Seed              uint64    `json:"-"` // equal seeds and logits give equal ids
}

// Bias is what the logit of an id is changed by.
type Bias struct {
	ID    int32
	Value float64
}

// Limits of what a request may ask for: each is work for every token.
const (
	MaxBadWords   = 1024 // sequences
	MaxBadWordIDs = 64   // ids of one of them
	MaxBias       = 4096 // ids
	MaxSuppress   = 4096 // ids of either list
)

// maxSeconds bounds MaxTime.
const maxSeconds = 86400

// Limits of the repetition penalty, as the contract of the API has them: beyond them a
// penalty only moves logits out of float32.
const (
	MinRepetition = 0.01
	MaxRepetition = 100.0
)

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
func (p *Params) Validate() error {
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
	case !(p.TypicalP >= 0 && p.TypicalP <= 1):
		return bad("typical_p", p.TypicalP, "0 to 1")
	case !(p.TopH >= 0 && p.TopH <= 1):
		return bad("top_h", p.TopH, "0 (all) to 1")
	case !(p.Epsilon >= 0 && p.Epsilon < 1):
		return bad("epsilon_cutoff", p.Epsilon, "0 (all) to less than 1, such as 3e-4")
	case !(p.Eta >= 0 && p.Eta < 1):
		return bad("eta_cutoff", p.Eta, "0 (all) to less than 1, such as 3e-4")
	case p.Decay.Factor != 0 && !(p.Decay.Factor >= 0.01 && p.Decay.Factor <= 100) || p.Decay.Start < 0:
		return bad("exponential_decay_length_penalty", p.Decay, "a start of 0 or more and a factor of 0.01 to 100")
	case p.RepetitionPenalty != 0 && !(p.RepetitionPenalty >= MinRepetition && p.RepetitionPenalty <= MaxRepetition):
		return bad("repetition_penalty", p.RepetitionPenalty, fmt.Sprintf("%v to %v, 1 for none", MinRepetition, MaxRepetition))
	case !(math.Abs(p.PresencePenalty) <= 2):
		return bad("presence_penalty", p.PresencePenalty, "-2 to 2")
	case !(math.Abs(p.FrequencyPenalty) <= 2):
		return bad("frequency_penalty", p.FrequencyPenalty, "-2 to 2")
	case p.NoRepeatNGram < 0:
		return bad("no_repeat_ngram_size", p.NoRepeatNGram, "0 (none) or more")
	case !(p.MaxTime >= 0 && p.MaxTime <= maxSeconds):
		return bad("max_time", p.MaxTime, "seconds, more than 0 to 86400")
	case p.MinNewTokens < 0:
		return bad("min_new_tokens", p.MinNewTokens, "0 or more")
	}
	return p.validateLists()
}

func (p *Params) validateLists() error {
	if n := len(p.BadWords); n > MaxBadWords {
		return &FieldError{"bad_words", fmt.Sprintf("a list of %d", n), fmt.Sprintf("at most %d", MaxBadWords)}
	}
	for _, w := range p.BadWords {
		if len(w) == 0 || len(w) > MaxBadWordIDs {
			return &FieldError{"bad_words", fmt.Sprintf("a word of %d tokens", len(w)), fmt.Sprintf("1 to %d", MaxBadWordIDs)}
		}
	}
	if n := len(p.Runs); n > MaxBadWords {
		return &FieldError{"sequence_bias", fmt.Sprintf("a list of %d", n), fmt.Sprintf("at most %d", MaxBadWords)}
	}
	for _, r := range p.Runs {
		if len(r.IDs) == 0 || len(r.IDs) > MaxBadWordIDs || !(math.Abs(r.Value) <= 100) {
			return &FieldError{"sequence_bias", fmt.Sprintf("%v for %d tokens", r.Value, len(r.IDs)), fmt.Sprintf("-100 to 100 for 1 to %d", MaxBadWordIDs)}
		}
	}
	if n := max(len(p.Suppress), len(p.BeginSuppress), len(p.ForcedEOS)); n > MaxSuppress {
		return &FieldError{"suppress_tokens", fmt.Sprintf("a list of %d", n), fmt.Sprintf("at most %d", MaxSuppress)}
	}
	if n := len(p.Bias); n > MaxBias {
		return &FieldError{"logit_bias", fmt.Sprintf("a list of %d", n), fmt.Sprintf("at most %d", MaxBias)}
	}
	for _, b := range p.Bias {
		if !(math.Abs(b.Value) <= 100) {
			return &FieldError{"logit_bias", b.Value, "-100 to 100"}
		}
	}
	return nil
}

// Fits refuses ids that a vocabulary does not have; the error is a *FieldError.
func (p *Params) Fits(vocab int) error {
	check := func(field string, id int32) error {
		if id < 0 || int(id) >= vocab {
			return &FieldError{field, fmt.Sprintf("token id %d", id), fmt.Sprintf("0 to %d", vocab-1)}
		}
		return nil
	}
	for _, w := range p.BadWords {
		for _, id := range w {
			if err := check("bad_words", id); err != nil {
				return err
			}
		}
	}
	for _, b := range p.Bias {
		if err := check("logit_bias", b.ID); err != nil {
			return err
		}
	}
	lists := map[string]IDs{"suppress_tokens": p.Suppress, "begin_suppress_tokens": p.BeginSuppress, "forced_eos_token_id": p.ForcedEOS}
	for _, r := range p.Runs {
		lists["sequence_bias"] = append(lists["sequence_bias"], r.IDs...)
	}
	for field, ids := range lists {
		for _, id := range ids {
			if err := check(field, id); err != nil {
				return err
			}
		}
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
