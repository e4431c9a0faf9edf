package wiring

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"whorl/api"
)

// Settings are the flags that a node runs with, wherever their values came from, and those
// that may change while it runs. It implements api.Settings.
type Settings struct {
	log *Logging

	mu      sync.Mutex // guards all below
	begun   []api.Setting
	live    map[string]func(text string) (apply func(), err error)
	changed map[string]string
}

// fromAPI is the source of what the operator changed while the node ran.
const fromAPI = "api"

// NewSettings are those that a node begins with.
func NewSettings(begun []api.Setting, log *Logging) *Settings {
	s := &Settings{log: log, begun: begun, changed: map[string]string{}}
	slices.SortFunc(s.begun, func(a, b api.Setting) int { return strings.Compare(a.Name, b.Name) })
	s.live = map[string]func(string) (func(), error){"log-level": s.logLevel}
	return s
}

func (s *Settings) logLevel(text string) (func(), error) {
	level, err := parseLogLevel(text)
	if err != nil {
		return nil, err
	}
	return func() { s.log.level.Set(level) }, nil
}

// allow lets a setting change while the node runs: check says what is wrong with a text, or how
// it comes into force.
func (s *Settings) allow(name string, check func(text string) (apply func(), err error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[name] = check
}

// note says what a setting has become by other means.
func (s *Settings) note(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed[name] = text
}

// List is in the order of names.
func (s *Settings) List() []api.Setting {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.begun)
	for i := range out {
		out[i].Restart = s.live[out[i].Name] == nil
		if text, ok := s.changed[out[i].Name]; ok {
			out[i].Value, out[i].Source = text, fromAPI
		}
	}
	return out
}

// Change sets all values or none.
func (s *Settings) Change(values map[string]*string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := maps.Clone(s.changed)
	var apply []func()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(s.begun, func(b api.Setting) bool { return b.Name == name })
		switch {
		case i < 0:
			return api.Invalid(api.Clip(name), "there is no setting %q: GET /api/v1/node/config lists them", api.Clip(name))
		case s.live[name] == nil:
			return api.Refused(api.CodeNeedsRestart, "%s cannot change while the node runs: start it with another --%s", name, name)
		}
		text := s.begun[i].Value
		if values[name] != nil {
			text = *values[name]
		}
		f, err := s.live[name](text)
		if err != nil {
			return api.Invalid(name, "%s: %w", name, err)
		}
		apply = append(apply, f)
		if changed[name] = text; values[name] == nil {
			delete(changed, name)
		}
	}
	for _, f := range apply {
		f()
	}
	s.changed = changed
	return nil
}

// Level is the least level that is logged.
func (s *Settings) Level() slog.Level { return s.log.level.Level() }

type settingsKey struct{}

func WithSettings(ctx context.Context, s *Settings) context.Context {
	return context.WithValue(ctx, settingsKey{}, s)
}

// settingsOf are those of the command that runs.
func settingsOf(ctx context.Context) *Settings {
	if s, ok := ctx.Value(settingsKey{}).(*Settings); ok {
		return s
	}
	return &Settings{log: loggingOf(ctx), live: map[string]func(string) (func(), error){}, changed: map[string]string{}}
}
