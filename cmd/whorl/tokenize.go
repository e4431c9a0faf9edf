package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"whorl/internal/wiring"
	"whorl/model/tokenizer"
)

// maxText bounds what is read from stdin as one text: what the tokenizer takes.
const maxText = 64 << 20

func newTokenize(w *world) *cobra.Command {
	var (
		text          string
		lines, asJSON bool
		opts          tokenizer.EncodeOptions
	)
	cmd := &cobra.Command{
		Use:   "tokenize MODEL",
		Short: "Turn text into token ids",
		Long: `Turn text into token ids: that of --text, or stdin as one text. With --lines each line
of stdin is a JSON string and each line of the output a JSON list of ids.
MODEL is a folder, a .gguf file or a tokenizer.json.`,
		Args: oneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			given := sourcesOf(cmd).given("text")
			if lines && (given || asJSON) {
				return wiring.Usagef("--lines reads stdin and prints a list a line: leave --text and --json out")
			}
			t, err := openTokenizer(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if lines {
				return eachLine(w, func(line []byte) (any, error) {
					var s string
					if err := json.Unmarshal(line, &s); err != nil {
						return nil, fmt.Errorf("no JSON string: %w", err)
					}
					return encode(t, s, opts)
				})
			}
			if !given {
				if text, err = readText(w.in); err != nil {
					return err
				}
			}
			ids, err := encode(t, text, opts)
			if err != nil {
				return wiring.Usage(err)
			}
			if asJSON {
				return json.NewEncoder(w.out).Encode(map[string]any{"ids": ids})
			}
			return json.NewEncoder(w.out).Encode(ids)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&text, "text", "", "the text; default: stdin")
	fs.BoolVar(&lines, "lines", false, "a JSON string per line of stdin, a JSON list of ids per line of output")
	fs.BoolVar(&opts.Special, "special", false, "add the model's begin and end tokens")
	fs.BoolVar(&opts.ParseSpecial, "parse-special", false, "text that looks like a special token becomes that token")
	fs.BoolVar(&asJSON, "json", false, `print {"ids":[...]} instead of the list alone`)
	return cmd
}

// encode is Encode with an empty list, not null, for an empty text.
func encode(t *tokenizer.Tokenizer, text string, o tokenizer.EncodeOptions) ([]int32, error) {
	ids, err := t.Encode(text, o)
	if ids == nil {
		ids = []int32{}
	}
	return ids, err
}

func newDetokenize(w *world) *cobra.Command {
	var (
		list                       string
		lines, skipSpecial, asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "detokenize MODEL",
		Short: "Turn token ids into text",
		Long: `Turn token ids into text: those of --ids, or of stdin as one list. With --lines each
line of stdin is a JSON list of ids and each line of the output a JSON string.
MODEL is a folder, a .gguf file or a tokenizer.json.`,
		Args: oneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			given := sourcesOf(cmd).given("ids")
			if lines && (given || asJSON) {
				return wiring.Usagef("--lines reads stdin and prints a string a line: leave --ids and --json out")
			}
			t, err := openTokenizer(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if lines {
				return eachLine(w, func(line []byte) (any, error) {
					var ids []int32
					if err := json.Unmarshal(line, &ids); err != nil {
						return nil, fmt.Errorf("no JSON list of ids: %w", err)
					}
					if err := inVocabulary(t, ids); err != nil {
						return nil, err
					}
					return t.Decode(ids, skipSpecial), nil
				})
			}
			if !given {
				if list, err = readText(w.in); err != nil {
					return err
				}
			}
			ids, err := parseIDs(list)
			if err != nil {
				return err
			}
			if err := inVocabulary(t, ids); err != nil {
				return wiring.Usage(err)
			}
			text := t.Decode(ids, skipSpecial)
			if asJSON {
				return printJSON(w.out, map[string]any{"text": text})
			}
			_, err = fmt.Fprintln(w.out, text)
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&list, "ids", "", "the ids, separated by commas; default: stdin")
	fs.BoolVar(&lines, "lines", false, "a JSON list of ids per line of stdin, a JSON string per line of output")
	fs.BoolVar(&skipSpecial, "skip-special", false, "leave special tokens out of the text")
	fs.BoolVar(&asJSON, "json", false, `print {"text":"..."} instead of the text alone`)
	return cmd
}

// inVocabulary refuses ids that no token has: their text would be silently empty.
func inVocabulary(t *tokenizer.Tokenizer, ids []int32) error {
	for _, id := range ids {
		if id < 0 || int(id) >= t.VocabSize() {
			return fmt.Errorf("id %d is outside of the vocabulary of %d tokens", id, t.VocabSize())
		}
	}
	return nil
}

// eachLine turns every line of stdin into a line of JSON.
func eachLine(w *world, f func(line []byte) (any, error)) error {
	in := bufio.NewReaderSize(w.in, 1<<16)
	out := bufio.NewWriter(w.out)
	defer out.Flush()
	for n := 1; ; n++ {
		line, err := readLine(in)
		if err == io.EOF {
			return out.Flush()
		}
		if err != nil {
			return fmt.Errorf("stdin, line %d: %w", n, err)
		}
		v, err := f(line)
		if err != nil {
			return wiring.Usagef("stdin, line %d: %w", n, err)
		}
		if err := printJSON(out, v); err != nil {
			return err
		}
		if in.Buffered() == 0 { // somebody may wait for this answer before the next line
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

// readLine reads a line of any length up to what a text may have as JSON; io.EOF only if
// there is none.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > 2*maxText:
			return nil, fmt.Errorf("longer than %d bytes", 2*maxText)
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(line) > 0, err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		default:
			return nil, err
		}
	}
}

// readText reads all of stdin as one text.
func readText(in io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxText+1))
	if err != nil {
		return "", fmt.Errorf("read stdin: %w", err)
	}
	if len(b) > maxText {
		return "", wiring.Usagef("stdin holds more than %d bytes: give the text in parts", maxText)
	}
	return string(b), nil
}

// parseIDs reads ids separated by commas or white space, with or without brackets.
func parseIDs(text string) ([]int32, error) {
	text = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "["), "]")
	ids := []int32{}
	for _, s := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' || r == '\r' }) {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 0 {
			return nil, wiring.Usagef("ids: %q is no token id: want numbers such as 1,2,3", s)
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}

// printJSON prints a value on one line, with <, > and & as they are.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
