package wiring

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"whorl/internal/journal"
)

// What of a node's past is kept for who follows it: lines and bytes.
const (
	logLines, logBytes     = 2000, 2 << 20
	eventLines, eventBytes = 1000, 1 << 20
)

// Logging is the log of the process: its level, which may change, and its last lines.
type Logging struct {
	level slog.LevelVar
	lines *journal.Log
}

// Start makes the default logger. calmed, which may be nil, says what becomes of lines that tell of no
// trouble.
func (l *Logging) Start(w io.Writer, format, level string, calmed func(slog.Handler) slog.Handler) error {
	least, err := parseLogLevel(level)
	if err != nil {
		return Usagef("--log-level %w", err)
	}
	l.level.Set(least)
	l.lines = journal.New(logLines, logBytes)
	opts := &slog.HandlerOptions{Level: &l.level}
	var h slog.Handler
	switch format {
	case "text":
		h = slog.NewTextHandler(w, opts)
	case "json":
		h = slog.NewJSONHandler(w, opts)
	default:
		return Usagef("--log-format %q: want text or json", format)
	}
	if calmed != nil {
		h = calmed(h)
	}
	slog.SetDefault(slog.New(&tee{Handler: h, lines: l.lines}))
	return nil
}

func parseLogLevel(text string) (slog.Level, error) {
	var level slog.Level
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(text)) || level.UnmarshalText([]byte(text)) != nil {
		return level, fmt.Errorf("%q: want debug, info, warn or error", text)
	}
	return level, nil
}

// tee writes each line to a journal too, without what is secret.
type tee struct {
	slog.Handler
	lines *journal.Log
	group string // in front of names
	attrs []slog.Attr
}

// logLine is what the journal has of a line.
type logLine struct {
	Message string            `json:"message"`
	Attrs   map[string]string `json:"attrs,omitempty"`
}

func (t *tee) Handle(ctx context.Context, r slog.Record) error {
	line := logLine{Message: Redacted("", r.Message), Attrs: map[string]string{}}
	for _, a := range t.attrs {
		line.Attrs[a.Key] = Redacted(a.Key, a.Value.String())
	}
	r.Attrs(func(a slog.Attr) bool {
		line.Attrs[t.group+a.Key] = Redacted(a.Key, a.Value.String())
		return true
	})
	t.lines.Add(r.Time, strings.ToLower(r.Level.String()), line)
	return t.Handler.Handle(ctx, r)
}

func (t *tee) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *t
	out.attrs = slices.Clone(t.attrs)
	for _, a := range attrs {
		out.attrs = append(out.attrs, slog.Attr{Key: t.group + a.Key, Value: a.Value})
	}
	out.Handler = t.Handler.WithAttrs(attrs)
	return &out
}

func (t *tee) WithGroup(name string) slog.Handler {
	out := *t
	out.group += name + "."
	out.Handler = t.Handler.WithGroup(name)
	return &out
}

// Hidden stands for what is not shown.
const Hidden = "(not shown)"

var (
	secretName = regexp.MustCompile(`(?i)(^|[_.-])(token|secret|password|passwd|authorization|api.?key|swarm.?key|invitation|word)$`)
	// secretText finds what is secret wherever it stands: invitations may hold the key of a swarm.
	secretText = regexp.MustCompile(`(?i)(bearer\s+)\S+|(://[^\s/:@]*:)[^\s/@]*@|(whorl1)[a-z2-7]{16,}|(hf_)[a-z0-9]{16,}`)
)

// Redacted is a text of a log without what is secret.
func Redacted(name, text string) string {
	if secretName.MatchString(name) && text != "" {
		return Hidden
	}
	return secretText.ReplaceAllStringFunc(text, func(found string) string {
		m := secretText.FindStringSubmatch(found)
		switch lead := m[1] + m[2] + m[3] + m[4]; {
		case m[2] != "":
			return lead + Hidden + "@"
		default:
			return lead + Hidden
		}
	})
}

type loggingKey struct{}

func WithLogging(ctx context.Context, l *Logging) context.Context {
	return context.WithValue(ctx, loggingKey{}, l)
}

// loggingOf is the log of the command that runs.
func loggingOf(ctx context.Context) *Logging {
	if l, ok := ctx.Value(loggingKey{}).(*Logging); ok {
		return l
	}
	return &Logging{lines: journal.New(1, 1<<10)}
}
