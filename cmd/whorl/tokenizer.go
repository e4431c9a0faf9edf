package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"whorl/model"
	"whorl/model/tokenizer"
	"whorl/model/weights"
)

// oneModel is the argument check of commands that need a MODEL and nothing else.
func oneModel(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("no MODEL given: name a model folder, a .gguf file or a model of the hub, such as owner/name")
	case 1:
		return nil
	case 2:
		if isInvitation(args[0]) { // which may be followed by the path of the model
			return nil
		}
		fallthrough
	default:
		return fmt.Errorf("one MODEL is wanted, %d arguments given: %q", len(args), args)
	}
}

// openTokenizer opens the tokenizer of a MODEL: a folder, a .gguf file or a
// tokenizer.json.
func openTokenizer(ctx context.Context, name string) (*tokenizer.Tokenizer, error) {
	src, fetched, err := new(hubFlags).source(ctx, name, false)
	if err != nil {
		return nil, err
	}
	defer fetched.Close()
	path, dir, err := model.Locate(src.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, modelError(err)
	case err != nil:
		return nil, usagef("model: %w", err)
	case dir:
		t, err := tokenizer.OpenFolder(path)
		return t, usage(err)
	case strings.HasSuffix(path, ".gguf"):
		src.Path = path
		f, err := src.OpenGGUF(ctx)
		if err != nil {
			return nil, usage(err)
		}
		defer f.Close()
		return ggufTokenizer(path, f.Metadata())
	case filepath.Ext(path) == ".json":
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, usagef("tokenizer %s: %w", path, err)
		}
		t, err := tokenizer.LoadJSON(data)
		if err != nil {
			return nil, usagef("tokenizer %s: %w", path, err)
		}
		return t, nil
	}
	return nil, usagef("model %s: want a folder, a .gguf file or a tokenizer.json", path)
}

// ggufTokenizer makes the tokenizer of a GGUF file.
func ggufTokenizer(path string, m *weights.Metadata) (*tokenizer.Tokenizer, error) {
	t, err := tokenizer.FromGGUF(ggufVocab(m))
	if err != nil {
		return nil, usagef("tokenizer of %s: %w", path, err)
	}
	return t, nil
}

// ggufVocab collects what the metadata of a GGUF file says about its tokenizer.
func ggufVocab(m *weights.Metadata) tokenizer.GGUFVocab {
	const prefix = "tokenizer.ggml."
	var v tokenizer.GGUFVocab
	v.Name, _ = m.String("general.name")
	v.Model, _ = m.String(prefix + "model")
	v.Pre, _ = m.String(prefix + "pre")
	v.Tokens, _ = m.Strings(prefix + "tokens")
	v.Merges, _ = m.Strings(prefix + "merges")
	v.ChatTemplate, _ = m.String("tokenizer.chat_template")
	v.ToolTemplate, _ = m.String("tokenizer.chat_template.tool_use")
	if types, ok := m.Ints(prefix + "token_type"); ok {
		v.Types = make([]int32, len(types))
		for i, t := range types {
			v.Types[i] = int32(t)
		}
	}
	if scores, ok := m.Floats(prefix + "scores"); ok {
		v.Scores = make([]float32, len(scores))
		for i, s := range scores {
			v.Scores[i] = float32(s)
		}
	}
	id := func(key string) int32 {
		if n, ok := m.Int(prefix + key); ok {
			return int32(n)
		}
		return -1
	}
	v.BOS, v.EOS, v.UNK = id("bos_token_id"), id("eos_token_id"), id("unknown_token_id")
	v.PAD, v.EOT, v.EOM = id("padding_token_id"), id("eot_token_id"), id("eom_token_id")
	yes := func(key string) *bool {
		if b, ok := m.Bool(prefix + key); ok {
			return &b
		}
		return nil
	}
	v.AddBOS, v.AddEOS, v.AddSpacePrefix = yes("add_bos_token"), yes("add_eos_token"), yes("add_space_prefix")
	return v
}

// noArgs is the argument check of commands that take flags alone.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("no argument is wanted, %q given", args)
	}
	return nil
}
