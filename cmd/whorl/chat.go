package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"whorl/client"
	"whorl/internal/wiring"
	"whorl/model/tokenizer"
)

func newChat(w *world) *cobra.Command {
	var (
		ask    wiring.AskOptions
		answer answerFlags
		system string
		length int
	)
	cmd := &cobra.Command{
		Use:   "chat MODEL",
		Short: "Have a conversation at the terminal",
		Long: `Have a conversation: each line of stdin is a message, each answer goes to stdout. /reset
forgets the conversation, /exit or the end of stdin ends it.`,
		Args: atMostOneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := answer.check(cmd); err != nil {
				return err
			}
			if answer.beams.Return != 1 {
				return wiring.Usagef("--num-return-sequences %d: a conversation has one answer", answer.beams.Return)
			}
			if length < 1 {
				return wiring.Usagef("--max-length %d: want 1 or more", length)
			}
			a, err := openAsk(cmd, &ask, args)
			if err != nil {
				return err
			}
			defer a.Close()
			if a.Tokenizer == nil {
				return wiring.Usagef("chat: %w", a.TokenizerErr)
			}
			if !sourcesOf(cmd).given("max-length") {
				length = min(length, a.Model.Checkpoint.Config.LongestSession())
			}
			if ask.Beside, err = answer.beside(a); err != nil {
				return err
			}
			s, err := ask.Session(cmd.Context(), a, length, answer.beams.Beams)
			if err != nil {
				return err
			}
			defer s.Close()
			r, err := answer.request(a, nil)
			if err != nil {
				return err
			}
			c := conversation{w: w, tok: a.Tokenizer, session: s, request: r, system: system, show: isTerminal(w.in)}
			if err := c.run(cmd.Context()); err != nil || !ask.Audit {
				return err
			}
			_, wrong := auditsOf(cmd.Context(), w, s)
			return wrong
		},
	}
	addAsk(cmd.Flags(), &ask)
	addVerify(cmd.Flags(), &ask)
	answer.add(cmd.Flags())
	cmd.Flags().StringVar(&system, "system", "", "system message")
	cmd.Flags().IntVar(&length, "max-length", 4096, "most tokens of the conversation")
	return cmd
}

func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// conversation is the state of one chat.
type conversation struct {
	w        *world
	tok      *tokenizer.Tokenizer
	session  *client.Session
	request  client.Request // but for the prompt
	system   string
	show     bool // prompts, for people
	messages []tokenizer.Message
}

// run reads messages until stdin ends. Reading happens in a goroutine of its own, so that
// a signal ends the chat while it waits for a line; that goroutine ends with the process.
func (c *conversation) run(ctx context.Context) error {
	c.reset()
	lines := make(chan string)
	failed := make(chan error, 1)
	go func() {
		in := bufio.NewReader(c.w.in)
		for {
			line, err := readLine(in)
			if err != nil {
				failed <- err
				return
			}
			select {
			case lines <- string(line):
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		if c.show {
			fmt.Fprint(c.w.err, "> ")
		}
		select {
		case <-ctx.Done():
			return wiring.ErrInterrupted
		case err := <-failed:
			if err == io.EOF {
				return nil
			}
			return fmt.Errorf("read stdin: %w", err)
		case line := <-lines:
			switch line = strings.TrimSpace(line); line {
			case "":
			case "/exit":
				return nil
			case "/reset":
				c.reset()
			default:
				if err := c.turn(ctx, line); err != nil {
					return err
				}
			}
		}
	}
}

func (c *conversation) reset() {
	c.messages = nil
	if c.system != "" {
		c.messages = append(c.messages, tokenizer.Message{Role: "system", Content: c.system})
	}
}

// turn says one thing and prints the answer. What the session holds already of the
// conversation is not computed again. Near the session's length the answer is clipped, then the
// oldest turns go, which a line tells; a message that does not fit alone is left out.
func (c *conversation) turn(ctx context.Context, text string) error {
	positions := c.session.MaxLength()
	f, err := fit(append(c.messages, tokenizer.Message{Role: "user", Content: text}), positions, c.request.MaxNewTokens,
		func(ms []tokenizer.Message) ([]int32, error) { return c.tok.EncodeChat(ms, true) })
	if err != nil {
		return wiring.Usagef("chat: %w", err)
	}
	if f.answer == 0 {
		fmt.Fprintf(c.w.err, "this message takes %d of %d tokens, which leaves no room for an answer: a shorter one, or a higher --max-length\n", len(f.ids), positions)
		return nil
	}
	if f.gone > 0 {
		fmt.Fprintf(c.w.err, "the oldest %d messages were let go: the conversation is longer than %d tokens\n", f.gone, positions)
	}
	if f.answer < c.request.MaxNewTokens {
		fmt.Fprintf(c.w.err, "the conversation takes %d of %d tokens: the answer may have %d\n", len(f.ids), positions, f.answer)
	}
	ids := f.ids
	have := c.session.IDs()
	common := 0
	for common < len(have) && common < len(ids)-1 && have[common] == ids[common] {
		common++
	}
	if err := c.session.Truncate(common); err != nil {
		return err
	}
	r := c.request
	r.Prompt, r.MaxNewTokens = ids[common:], f.answer
	res, err := c.session.Generate(ctx, r, func(d client.Delta) error {
		_, err := io.WriteString(c.w.out, d.Text)
		return err
	})
	fmt.Fprintln(c.w.out)
	if ctx.Err() != nil {
		return wiring.ErrInterrupted
	}
	if err != nil {
		return wiring.Asked(err)
	}
	fmt.Fprintln(c.w.err, summary(res))
	c.messages = append(f.messages, tokenizer.Message{Role: "assistant", Content: res.Text})
	return nil
}
