package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"whorl/client"
	"whorl/client/train"
	"whorl/internal/wiring"
	"whorl/model/tokenizer"
	"whorl/swarm"
)

func newClassify(w *world) *cobra.Command {
	var (
		ask    wiring.AskOptions
		text   string
		tokens int
		batch  int
		asJSON bool
		limit  = 3 * time.Minute
	)
	cmd := &cobra.Command{
		Use:   "classify MODEL --prompt-tuning DIR",
		Short: "Tell labels of texts, as whorl tune learnt them",
		Long: `Tell the label of a text (--text), or of each line of stdin, with a classifier that
whorl tune --task classify has trained: its folder is --prompt-tuning.`,
		Args: atMostOneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case ask.PromptTuning == "":
				return wiring.Usagef("no classifier: give --prompt-tuning DIR, a folder of whorl tune --task classify")
			case tokens < 1 || batch < 1:
				return wiring.Usagef("--max-tokens %d, --batch %d: want at least 1", tokens, batch)
			case limit <= 0:
				return wiring.Usagef("--request-deadline %v: want more than 0", limit)
			}
			a, err := openAsk(cmd, &ask, args)
			if err != nil {
				return err
			}
			defer a.Close()
			if a.Tokenizer == nil {
				return wiring.Usagef("classify: %w", a.TokenizerErr)
			}
			t, err := wiring.OpenTuning(ask.PromptTuning, a.Model)
			if err != nil {
				return err
			}
			if len(t.Labels) == 0 {
				return wiring.Usagef("--prompt-tuning %s holds no classifier: it was trained to go on with texts", t.Name)
			}
			ctx := cmd.Context()
			if err := ask.With(t); err != nil {
				return err
			}
			adapter, err := ask.OpenAdapter(ctx, a)
			if err != nil {
				return err
			}
			if err := ask.Connect(ctx, a, 1, 1); err != nil {
				if ctx.Err() != nil {
					return wiring.ErrInterrupted
				}
				return err
			}
			if text := t.Other(a.Engine.Model().UID); text != "" {
				fmt.Fprintln(w.err, text)
			}
			if ask.Local {
				limit = wiring.LocalPatience
			}
			c := classifier{w: w, a: a, t: t, tokens: min(tokens, a.Model.Checkpoint.Config.LongestSession()-t.Tables.Tokens), json: asJSON}
			remote, err := a.Engine.Remote(swarm.Span{Start: 0, End: a.Engine.Model().Manifest.Blocks}, client.RemoteOptions{Limit: limit, Adapter: adapter})
			if err != nil {
				return err
			}
			c.blocks = train.Remote(remote)
			if sourcesOf(cmd).given("text") {
				return c.tell(ctx, []string{text})
			}
			return c.lines(ctx, batch)
		},
	}
	addAsk(cmd.Flags(), &ask)
	cmd.Flags().StringVar(&text, "text", "", "the text; default: each line of stdin is one")
	cmd.Flags().IntVar(&tokens, "max-tokens", 256, "longest text in tokens; longer ones are cut at the end")
	cmd.Flags().IntVar(&batch, "batch", 16, "texts that are computed at once")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each text, with the probabilities of all labels")
	secondsVar(cmd.Flags(), &limit, "request-deadline", "a server that computes a pass for longer is replaced")
	return cmd
}

// classifier tells labels.
type classifier struct {
	w      *world
	a      *wiring.Asker
	t      *wiring.Tuning
	blocks train.Blocks
	tokens int
	json   bool
}

// lines tells the labels of stdin's lines.
func (c *classifier) lines(ctx context.Context, batch int) error {
	in := bufio.NewScanner(c.w.in)
	in.Buffer(make([]byte, 64<<10), train.MaxLine)
	var texts []string
	for in.Scan() {
		if strings.TrimSpace(in.Text()) == "" {
			continue
		}
		if texts = append(texts, in.Text()); len(texts) == batch {
			if err := c.tell(ctx, texts); err != nil {
				return err
			}
			texts = texts[:0]
		}
	}
	if err := in.Err(); err != nil {
		return wiring.Usagef("read stdin: %w", err)
	}
	if len(texts) == 0 {
		return nil
	}
	return c.tell(ctx, texts)
}

// labelObject is what --json prints of a text.
type labelObject struct {
	Label         string             `json:"label"`
	Probabilities map[string]float64 `json:"probabilities"`
}

// tell tells the labels of some texts.
func (c *classifier) tell(ctx context.Context, texts []string) error {
	ids := make([][]int32, len(texts))
	for i, text := range texts {
		var err error
		if ids[i], err = c.a.Tokenizer.Encode(text, tokenizer.EncodeOptions{Special: true}); err != nil {
			return wiring.Usagef("text %d: %w", i+1, err)
		}
		if len(ids[i]) == 0 {
			return wiring.Usagef("a text is empty")
		}
		ids[i] = ids[i][:min(len(ids[i]), c.tokens)]
	}
	found, err := c.t.Tables.Classify(ctx, c.a.Model.Head, c.blocks, ids)
	if ctx.Err() != nil {
		return wiring.ErrInterrupted
	}
	if err != nil {
		return wiring.Asked(err)
	}
	for i, p := range found {
		best := 0
		o := labelObject{Probabilities: map[string]float64{}}
		for l, v := range p {
			o.Probabilities[c.t.Labels[l]] = v
			if v > p[best] {
				best = l
			}
		}
		if o.Label = c.t.Labels[best]; c.json {
			if err := printJSON(c.w.out, o); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(c.w.out, "%s\t%.4f\t%s\n", o.Label, p[best], strings.TrimSpace(texts[i]))
	}
	return nil
}
