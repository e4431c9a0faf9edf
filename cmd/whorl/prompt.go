package main

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"whorl/internal/wiring"
	"whorl/model/tokenizer"
)

// promptFlags say what a model is given.
type promptFlags struct {
	text, ids    string
	chat         bool
	system       string
	parseSpecial bool
}

func (f *promptFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.text, "prompt", "", "the text; default: stdin")
	fs.StringVar(&f.ids, "ids", "", "token ids instead of text, separated by commas; needs no tokenizer")
	fs.BoolVar(&f.parseSpecial, "parse-special", false, "text that looks like a special token becomes that token")
}

func (f *promptFlags) addChat(fs *pflag.FlagSet) {
	fs.BoolVar(&f.chat, "chat", false, "wrap the prompt in the model's chat template")
	fs.StringVar(&f.system, "system", "", "system message of the chat, with --chat")
}

// check refuses contradictions.
func (f *promptFlags) check(cmd *cobra.Command) error {
	from := sourcesOf(cmd)
	switch {
	case from.given("ids") && (from.given("prompt") || f.chat):
		return wiring.Usagef("--ids are the whole prompt: leave --prompt and --chat out")
	case f.system != "" && !f.chat:
		return wiring.Usagef("--system belongs to a chat: add --chat")
	}
	return nil
}

// read finds the ids of the prompt.
func (f *promptFlags) read(cmd *cobra.Command, in io.Reader, a *wiring.Asker) ([]int32, error) {
	from := sourcesOf(cmd)
	if from.given("ids") {
		ids, err := parseIDs(f.ids)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if vocab := a.Model.Checkpoint.Config.Vocab; int(id) >= vocab {
				return nil, wiring.Usagef("--ids: id %d is outside of the vocabulary of %d tokens", id, vocab)
			}
		}
		return ids, notEmpty(ids)
	}
	if a.Tokenizer == nil {
		return nil, wiring.Usagef("%w (--ids)", a.TokenizerErr)
	}
	text := f.text
	if !from.given("prompt") {
		var err error
		if text, err = readText(in); err != nil {
			return nil, err
		}
	}
	ids, err := f.encode(a, text)
	if err != nil {
		return nil, err
	}
	return ids, notEmpty(ids)
}

// encode is a text as the model is to see it.
func (f *promptFlags) encode(a *wiring.Asker, text string) ([]int32, error) {
	if f.chat {
		var messages []tokenizer.Message
		if f.system != "" {
			messages = append(messages, tokenizer.Message{Role: "system", Content: f.system})
		}
		ids, err := a.Tokenizer.EncodeChat(append(messages, tokenizer.Message{Role: "user", Content: text}), true)
		if err != nil {
			return nil, wiring.Usagef("--chat: %w", err)
		}
		return ids, nil
	}
	ids, err := a.Tokenizer.Encode(text, tokenizer.EncodeOptions{Special: true, ParseSpecial: f.parseSpecial})
	if err != nil {
		return nil, wiring.Usagef("prompt: %w", err)
	}
	return ids, nil
}

func notEmpty(ids []int32) error {
	if len(ids) == 0 {
		return wiring.Usagef("the prompt is empty: give at least one token")
	}
	return nil
}
