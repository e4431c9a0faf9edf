package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"whorl/internal/wiring"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// screen is a terminal with a few lines at its end that are drawn again and again; what is
// written meanwhile goes above them. Safe for concurrent use.
type screen struct {
	out io.Writer

	mu    sync.Mutex // guards all below
	lines []string
	drawn int // lines that stand on the terminal now
}

// What of ECMA-48 is used: terminals have had it for decades.
const (
	lineUp   = "\x1b[1A"
	eraseAll = "\x1b[0J" // from the cursor to the end
	wrapOff  = "\x1b[?7l"
	wrapOn   = "\x1b[?7h"
)

// Write puts text above the block.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.draw(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// show draws other lines.
func (s *screen) show(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = lines
	s.draw(nil) // a terminal that is gone shows nothing
}

// draw erases the block, writes text, and draws the block again, at once. mu is held.
func (s *screen) draw(text []byte) error {
	var b bytes.Buffer
	if s.drawn > 0 {
		b.WriteString("\r" + strings.Repeat(lineUp, s.drawn) + eraseAll)
	}
	b.Write(text)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		b.WriteByte('\n')
	}
	b.WriteString(wrapOff)
	for _, l := range s.lines {
		b.WriteString(printable(l) + "\n")
	}
	b.WriteString(wrapOn)
	s.drawn = len(s.lines)
	_, err := s.out.Write(b.Bytes())
	return err
}

// printable is a text without what could move the cursor: names come from strangers.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// calm keeps lines of the log that tell of no trouble off the screen; the latest is noted.
type calm struct {
	slog.Handler
	note func(string)
}

func (c *calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		return c.Handler.Handle(ctx, r)
	}
	if r.Level < slog.LevelInfo {
		return nil
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if value := wiring.Redacted(a.Key, a.Value.String()); value != "" {
			text += "  " + a.Key + " " + value
		}
		return len(text) < 200
	})
	c.note(text)
	return nil
}

func (c *calm) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &calm{c.Handler.WithAttrs(attrs), c.note}
}

func (c *calm) WithGroup(name string) slog.Handler { return &calm{c.Handler.WithGroup(name), c.note} }

// blockCommands are those that show a block.
var blockCommands = map[string]bool{"serve": true, "join": true, "gateway": true, "bootstrap": true}

// wantsBlock tells whether a command shows a block instead of its log: at a terminal that can,
// unless a flag asks for the log.
func wantsBlock(cmd *cobra.Command, from sources, w *world) (*os.File, bool) {
	if !blockCommands[cmd.Name()] || cmd.Parent() != cmd.Root() || from.given("log-level") || from.given("log-format") || from.given("print-config") || from.given("dry-run") {
		return nil, false
	}
	return w.terminal()
}

// terminal is where errors go if that can draw.
func (w *world) terminal() (*os.File, bool) {
	f, ok := w.err.(*os.File)
	if !ok {
		return nil, false
	}
	environ := w.environ()
	return f, isatty.IsTerminal(f.Fd()) && wiring.Getenv(wiring.WithEnviron(context.Background(), environ), "TERM") != "dumb" && drawable(f)
}

// barCommands are those that draw a bar while they fetch a model.
var barCommands = map[string]bool{"generate": true, "chat": true, "score": true, "classify": true, "models get": true}

// wantsBar tells whether a command does: at a terminal that can.
func wantsBar(cmd *cobra.Command, w *world) (*os.File, bool) {
	if !barCommands[strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")] {
		return nil, false
	}
	return w.terminal()
}

// fetching draws how far a transfer is, and nothing once it is over.
func (s *screen) fetching(f wiring.Fetching) {
	if f.Over {
		s.show(nil)
		return
	}
	line := fmt.Sprintf("%s %d %%, %s of %s", bar(f.Done, f.Total), 100*f.Done/max(f.Total, 1), bytesText(f.Done), bytesText(f.Total))
	if f.Rate >= 1 {
		left := time.Duration(float64(f.Total-f.Done) / f.Rate * float64(time.Second))
		line += fmt.Sprintf(", %s/s, %v left", bytesText(int64(f.Rate)), left.Round(time.Second))
	}
	s.show([]string{line})
}

// bar is a share for eyes.
func bar(done, total int64) string {
	const width = 24
	full := int(width * min(done, total) / max(total, 1))
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "]"
}

// drawEvery is the time between two drawings of the block.
const drawEvery = 500 * time.Millisecond

// block is what a node at a terminal shows of itself.
type block struct {
	screen *screen

	mu   sync.Mutex // guards all below
	note string     // the latest line of the log
	live bool       // a node is drawn: the note is a line of it
}

type blockKey struct{}

// blockOf is the block of the command that runs; nil if it shows a log.
func blockOf(ctx context.Context) *block {
	b, _ := ctx.Value(blockKey{}).(*block)
	return b
}

// showOf is what draws a node of the command that runs; nil if it shows a log.
func showOf(ctx context.Context) func(context.Context, *wiring.Node) {
	if b := blockOf(ctx); b != nil {
		return b.run
	}
	return nil
}

// calmed has lines of the log that tell of no trouble noted by the block; nil for no block.
func (b *block) calmed() func(slog.Handler) slog.Handler {
	if b == nil {
		return nil
	}
	return func(h slog.Handler) slog.Handler { return &calm{h, b.noted} }
}

// noted keeps the latest line of the log; before there is a node it is all that is shown.
func (b *block) noted(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note = text
	if !b.live {
		b.screen.show([]string{text})
	}
}

func (b *block) latest() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.note
}

// run draws the node until ctx ends.
func (b *block) run(ctx context.Context, n *wiring.Node) {
	b.mu.Lock()
	b.live = true
	b.mu.Unlock()
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	rate := pace{}
	at, _ := n.URLs()
	for {
		st := n.Status()
		b.screen.show(blockLines(st, rate.of(st.Batch.Rows, time.Now()), at, b.latest()))
		select {
		case <-ctx.Done():
			b.screen.show(append(blockLines(n.Status(), 0, "", ""), "ending: sessions go on elsewhere. Ctrl-C again ends it at once."))
			return
		case <-tick.C:
		}
	}
}
