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

	"whorl/internal/wiring"
	"whorl/model"
	"whorl/model/tokenizer"
)

// oneModel is the argument check of commands that need a MODEL and nothing else.
func oneModel(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("no MODEL given: name a model folder, a .gguf file or a model of the hub, such as owner/name")
	case 1:
		return nil
	case 2:
		if wiring.IsInvitation(args[0]) { // which may be followed by the path of the model
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
	src, fetched, err := new(wiring.HubOptions).Source(ctx, name, false)
	if err != nil {
		return nil, err
	}
	defer fetched.Close()
	path, dir, err := model.Locate(src.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, wiring.ModelError(err)
	case err != nil:
		return nil, wiring.Usagef("model: %w", err)
	case dir:
		t, err := tokenizer.OpenFolder(path)
		return t, wiring.Usage(err)
	case strings.HasSuffix(path, ".gguf"):
		src.Path = path
		f, err := src.OpenGGUF(ctx)
		if err != nil {
			return nil, wiring.Usage(err)
		}
		defer f.Close()
		return wiring.GGUFTokenizer(path, f.Metadata())
	case filepath.Ext(path) == ".json":
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, wiring.Usagef("tokenizer %s: %w", path, err)
		}
		t, err := tokenizer.LoadJSON(data)
		if err != nil {
			return nil, wiring.Usagef("tokenizer %s: %w", path, err)
		}
		return t, nil
	}
	return nil, wiring.Usagef("model %s: want a folder, a .gguf file or a tokenizer.json", path)
}

// noArgs is the argument check of commands that take flags alone.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("no argument is wanted, %q given", args)
	}
	return nil
}
