package main

import (
	"fmt"
	"math"
	"slices"

	"whorl/client/train"
	"whorl/internal/wiring"
	"whorl/model/tokenizer"
)

// read reads the examples and turns them into ids.
func (t *tuning) read() error {
	f := t.f
	if t.a.Tokenizer == nil {
		return wiring.Usagef("tune: %w", t.a.TokenizerErr)
	}
	lines, err := openLines(f.data, "--data", f.opt.Task)
	if err != nil {
		return err
	}
	var held []train.Line
	if f.eval != "" {
		if held, err = openLines(f.eval, "--eval", f.opt.Task); err != nil {
			return err
		}
	}
	if f.opt.Task == train.Classify {
		if f.opt.Labels, err = train.Labels(lines); err != nil {
			return wiring.Usagef("--data %s: %w", f.data, err)
		}
	}
	if longest := t.a.Model.Checkpoint.Config.LongestSession() - f.opt.Tokens; f.maxTokens > longest {
		f.maxTokens = longest
	}
	if f.maxTokens < 1 {
		return wiring.Usagef("--prompt-tokens %d leave no room in the %d positions of the model", f.opt.Tokens, t.a.Model.Checkpoint.Config.LongestSession())
	}
	cut := 0
	if t.examples, err = t.encode(lines, "--data "+f.data, &cut); err == nil {
		t.eval, err = t.encode(held, "--eval "+f.eval, &cut)
	}
	if cut > 0 && err == nil {
		fmt.Fprintf(t.w.err, "%d examples are longer than %d tokens and were cut (--max-tokens)\n", cut, f.maxTokens)
	}
	return err
}

// encode turns lines into ids; cut counts those that were too long.
func (t *tuning) encode(lines []train.Line, from string, cut *int) ([]train.Example, error) {
	out := make([]train.Example, len(lines))
	for i, l := range lines {
		e := &out[i]
		var err error
		given, own := l.Text, l.Completion
		if own != nil {
			given = l.Prompt
		}
		if given != nil {
			e.IDs, err = t.a.Tokenizer.Encode(*given, tokenizer.EncodeOptions{Special: true})
		}
		if own != nil && err == nil {
			e.From = len(e.IDs)
			var ids []int32
			ids, err = t.a.Tokenizer.Encode(*own, tokenizer.EncodeOptions{Special: given == nil})
			e.IDs = append(e.IDs, ids...)
			if ends := t.a.Model.Checkpoint.EOS(); len(ends) > 0 { // where it ends is learnt too
				e.IDs = append(e.IDs, ends[0])
			}
		}
		if err != nil {
			return nil, wiring.Usagef("%s: example %d: %w", from, i+1, err)
		}
		if len(e.IDs) > t.f.maxTokens {
			e.IDs = e.IDs[:t.f.maxTokens]
			*cut++
		}
		switch {
		case len(e.IDs) == 0:
			return nil, wiring.Usagef("%s: example %d is empty", from, i+1)
		case e.From >= len(e.IDs):
			return nil, wiring.Usagef("%s: example %d has nothing to learn within %d tokens: raise --max-tokens or shorten its prompt", from, i+1, t.f.maxTokens)
		}
		if t.f.opt.Task == train.Classify {
			if e.Label = slices.Index(t.f.opt.Labels, string(*l.Label)); e.Label < 0 {
				return nil, wiring.Usagef("%s: example %d has the label %.40q, which no example of --data has", from, i+1, *l.Label)
			}
		}
	}
	return out, nil
}

// quality is how good something is, in words of the task.
func (t *tuning) quality(s *train.Sum) string {
	if t.f.opt.Task == train.Classify {
		return fmt.Sprintf("accuracy %.4f", s.Accuracy())
	}
	return fmt.Sprintf("perplexity %.2f, %.4f of the texts foretold whole", perplexity(s.Mean()), s.Accuracy())
}

// perplexity is that of a mean loss; JSON has no infinity.
func perplexity(loss float64) float64 { return math.Exp(min(loss, 700)) }
