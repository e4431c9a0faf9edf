package main

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"whorl/client"
	"whorl/client/sample"
	"whorl/internal/wiring"
	"whorl/model/tokenizer"
)

// answerFlags say how an answer is drawn.
type answerFlags struct {
	tokens    int
	params    sample.Params
	badWords  []string
	stop      []string
	ignoreEOS bool
	beams     sample.BeamParams
	early     string
	guidance  sample.GuidanceParams
}

func (f *answerFlags) add(fs *pflag.FlagSet) {
	fs.IntVar(&f.tokens, "max-new-tokens", 256, "most tokens of an answer; the default is less where the model has less room")
	fs.Float64Var(&f.params.Temperature, "temperature", 0, "0 takes the likeliest token (greedy)")
	fs.IntVar(&f.params.TopK, "top-k", 0, "draw among so many tokens; 0: all")
	fs.Float64Var(&f.params.TopP, "top-p", 1, "draw among the likeliest tokens of this total probability")
	fs.Float64Var(&f.params.MinP, "min-p", 0, "leave out tokens less likely than this share of the likeliest")
	fs.Float64Var(&f.params.TypicalP, "typical-p", 1, "draw among the tokens of this total probability that are as surprising as is to be expected")
	fs.Float64Var(&f.params.TopH, "top-h", 0, "draw among the likeliest tokens that have this share of the entropy of the first hundred; 0: all")
	fs.Float64Var(&f.params.Epsilon, "epsilon-cutoff", 0, "leave out tokens less likely than this; 0: none")
	fs.Float64Var(&f.params.Eta, "eta-cutoff", 0, "as --epsilon-cutoff, but less where much is possible; 0: none")
	fs.Float64Var(&f.params.RepetitionPenalty, "repetition-penalty", 1, "above 1 makes tokens that occurred less likely")
	fs.Float64Var(&f.params.PresencePenalty, "presence-penalty", 0, "taken from the logits of tokens that the answer has; -2 to 2")
	fs.Float64Var(&f.params.FrequencyPenalty, "frequency-penalty", 0, "taken from the logit of a token for each time that the answer has it; -2 to 2")
	fs.IntVar(&f.params.NoRepeatNGram, "no-repeat-ngram-size", 0, "no run of so many tokens occurs twice; 0: any may")
	fs.IntVar(&f.params.MinNewTokens, "min-new-tokens", 0, "no end token before the answer has so many")
	fs.Float64Var(&f.params.MaxTime, "max-time", 0, "seconds after which the answer ends with its next token; 0: any")
	fs.Var(&f.params.Decay, "exponential-decay-length-penalty", "START,FACTOR: behind START tokens of the answer, end tokens become likelier by FACTOR with each")
	fs.Var(&f.params.Suppress, "suppress-tokens", "ids that the answer must not have")
	fs.Var(&f.params.BeginSuppress, "begin-suppress-tokens", "ids that the answer must not begin with")
	fs.Var(&f.params.ForcedEOS, "forced-eos-token-id", "one of these ids is the last token that an answer may have")
	fs.StringArrayVar(&f.badWords, "bad-words", nil, "`TEXT` that the answer must not have; may be repeated")
	fs.Uint64Var(&f.params.Seed, "seed", 0, "equal seeds give equal answers; default: random")
	fs.StringArrayVar(&f.stop, "stop", nil, "`TEXT` that ends the answer and is not shown; may be repeated")
	fs.BoolVar(&f.ignoreEOS, "ignore-eos", false, "go on after end tokens")
	fs.IntVar(&f.beams.Beams, "num-beams", 1, "search the best answer with so many beams, drawn with a --temperature; the text comes at the end")
	fs.Float64Var(&f.beams.LengthPenalty, "length-penalty", 1, "of a beam search: log-probabilities are divided by the length to this power")
	fs.StringVar(&f.early, "early-stopping", "false", "when a beam search with enough answers ends: true (at once), false (when better ones are unlikely) or never (when there can be none)")
	fs.IntVar(&f.beams.Groups, "num-beam-groups", 1, "divide --num-beams into so many groups, whose answers differ by --diversity-penalty")
	fs.Float64Var(&f.beams.Diversity, "diversity-penalty", 0, "with --num-beam-groups: taken from the score of a token for each beam of the groups before that says it in the same step")
	fs.Float64Var(&f.guidance.Scale, "guidance-scale", 1, "above 1 moves the answer away from what would follow --negative-prompt, below 1 towards it; it takes a second session")
	fs.StringVar(&f.guidance.Negative, "negative-prompt", "", "the other context of --guidance-scale; default: the last token of the prompt")
	fs.Var(&f.guidance.Ids, "negative-prompt-ids", "--negative-prompt as token ids")
	fs.IntVar(&f.beams.Return, "num-return-sequences", 1, "answers of a beam search to show, best first")
}

func (f *answerFlags) check(cmd *cobra.Command) error {
	if f.tokens < 1 {
		return wiring.Usagef("--max-new-tokens %d: want 1 or more", f.tokens)
	}
	if slices.Contains(f.stop, "") {
		return wiring.Usagef("--stop: an empty text would end every answer at once")
	}
	if slices.Contains(f.badWords, "") {
		return wiring.Usagef("--bad-words: an empty text is no word")
	}
	if !sourcesOf(cmd).given("seed") {
		f.params.Seed = rand.Uint64()
	}
	if f.params.RepetitionPenalty == 0 { // the sampler's word for none; the API has 1 for that
		return wiring.Usagef("--repetition-penalty 0: want %v to %v, 1 for none", sample.MinRepetition, sample.MaxRepetition)
	}
	switch other := f.guidance.Negative != "" || len(f.guidance.Ids) > 0; {
	case other && f.guidance.Scale == 1:
		return wiring.Usagef("a negative prompt has no effect without --guidance-scale: add it")
	case f.guidance.Negative != "" && len(f.guidance.Ids) > 0:
		return wiring.Usagef("give either --negative-prompt or --negative-prompt-ids")
	case f.guidance.Scale != 1 && f.beams.Beams > 1:
		return wiring.Usagef("--guidance-scale %v with --num-beams %d: transformers does not have the other context follow the beams: give one of them", f.guidance.Scale, f.beams.Beams)
	}
	early, err := sample.ParseEarly(f.early)
	f.beams.Early = early
	var bad *sample.FieldError
	if err := errors.Join(err, f.beams.Validate(), f.beams.Suits(&f.params), f.params.Validate(), sample.ValidateGuidance(f.guidance.Scale)); errors.As(err, &bad) {
		return wiring.Usagef("--%s %v: want %s", strings.ReplaceAll(bad.Field, "_", "-"), bad.Value, bad.Want)
	}
	return nil
}

// other is the other context of guidance: nil without one, or where it is the prompt's last id.
func (f *answerFlags) other(a *wiring.Asker) ([]int32, error) {
	if f.guidance.Negative == "" {
		for _, id := range f.guidance.Ids {
			if vocab := a.Model.Checkpoint.Config.Vocab; id < 0 || int(id) >= vocab {
				return nil, wiring.Usagef("--negative-prompt-ids: id %d is outside of the vocabulary of %d tokens", id, vocab)
			}
		}
		return f.guidance.Ids, nil
	}
	if a.Tokenizer == nil {
		return nil, wiring.Usagef("--negative-prompt: %w (--negative-prompt-ids)", a.TokenizerErr)
	}
	ids, err := a.Tokenizer.Encode(f.guidance.Negative, tokenizer.EncodeOptions{Special: true})
	if err != nil {
		return nil, wiring.Usagef("--negative-prompt: %w", err)
	}
	return ids, nil
}

// beside is how many positions the second session of a guided answer takes; 0 without guidance.
func (f *answerFlags) beside(a *wiring.Asker) (int, error) {
	if f.guidance.Scale == 1 {
		return 0, nil
	}
	ids, err := f.other(a)
	return max(1, len(ids)) + f.tokens, err
}

// request makes the request of a prompt; a must be connected.
func (f *answerFlags) request(a *wiring.Asker, prompt []int32) (client.Request, error) {
	r := client.Request{
		Prompt: prompt, MaxNewTokens: f.tokens, Sampling: f.params, Beams: f.beams, Stop: f.stop, IgnoreEOS: f.ignoreEOS, TopLogprobs: -1,
	}
	if f.guidance.Scale != 1 {
		other, err := f.other(a)
		if err != nil {
			return r, err
		}
		r.Guidance = &client.Guidance{Scale: f.guidance.Scale, Other: other}
	}
	if len(f.badWords) == 0 {
		return r, nil
	}
	if a.Tokenizer == nil {
		return r, wiring.Usagef("--bad-words: %w", a.TokenizerErr)
	}
	var err error
	r.Sampling.BadWords, err = a.Engine.BadWords(f.badWords)
	return r, err
}
