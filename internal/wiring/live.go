package wiring

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"whorl/api"
	"whorl/api/routes"
	"whorl/server"
	"whorl/swarm"
)

// live lets a setting change while the node runs: read reads its text or says what is wrong with
// it, and apply brings it into force.
func live[T any](s *Settings, name string, read func(text string) (T, error), apply func(T)) {
	s.allow(name, func(text string) (func(), error) {
		v, err := read(text)
		if err != nil {
			return nil, err
		}
		return func() { apply(v) }, nil
	})
}

// parsed reads a text as the flag of that type does.
func parsed[T any, P interface {
	*T
	Set(string) error
}](text string) (T, error) {
	var v T
	err := P(&v).Set(text)
	return v, err
}

func number(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%q is no whole number", text)
	}
	return n, atLeastOne(n)
}

func atLeastOne(n int) error {
	if n < 1 {
		return fmt.Errorf("%d: want at least 1", n)
	}
	return nil
}

func fraction(text string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return v, aShare(v)
}

func aShare(v float64) error {
	if !(v > 0 && v <= 1) {
		return fmt.Errorf("%v: want above 0 and at most 1, such as 0.5 for half", v)
	}
	return nil
}

// some reads a duration that is more than none.
func some(text string) (time.Duration, error) {
	d, err := parsed[Seconds](text)
	if err == nil && d == 0 {
		err = fmt.Errorf("%q: want more than 0", text)
	}
	return time.Duration(d), err
}

// words reads a list as a flag takes it, or shows it.
func words(text string) []string {
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// liveHTTP lets limits of users change while the node runs.
func (n *Node) liveHTTP(a *routes.Routes) {
	s := n.settings
	live(s, "max-user-sockets", number, func(v int) { a.Cap(func(c *api.Caps) { c.Sockets = v }) })
	live(s, "max-answers", number, func(v int) { a.Cap(func(c *api.Caps) { c.Answers = v }) })
	live(s, "user-cache", fraction, func(v float64) { a.Cap(func(c *api.Caps) { c.UserCache = v }) })
	live(s, "allow-adapters", func(text string) ([]swarm.Adapter, error) { return parseAllowed(words(text)) }, n.offers.allow)
}

// liveServer lets what a server permits and promises change while it serves.
func (n *Node) liveServer(srv *server.Server) {
	s := n.settings
	for name, of := range map[string]func(*server.Config) *int{
		"max-sessions":        func(c *server.Config) *int { return &c.MaxSessions },
		"max-peer-sessions":   func(c *server.Config) *int { return &c.PeerSessions },
		"max-prefix-sessions": func(c *server.Config) *int { return &c.PrefixSessions },
	} {
		live(s, name, number, func(v int) { tune(srv, func(c *server.Config) { *of(c) = v }) })
	}
	for name, of := range map[string]func(*server.Config) *float64{
		"peer-cache":   func(c *server.Config) *float64 { return &c.PeerCache },
		"prefix-cache": func(c *server.Config) *float64 { return &c.PrefixCache },
	} {
		live(s, name, fraction, func(v float64) { tune(srv, func(c *server.Config) { *of(c) = v }) })
	}
	for name, of := range map[string]func(*server.Timeouts) *time.Duration{
		"max-alloc-timeout": func(t *server.Timeouts) *time.Duration { return &t.Cache },
		"session-lease":     func(t *server.Timeouts) *time.Duration { return &t.Lease },
		"session-rest":      func(t *server.Timeouts) *time.Duration { return &t.Rest },
		"step-timeout":      func(t *server.Timeouts) *time.Duration { return &t.Idle },
		"session-timeout":   func(t *server.Timeouts) *time.Duration { return &t.Session },
	} {
		live(s, name, some, func(v time.Duration) { tune(srv, func(c *server.Config) { *of(&c.Timeouts) = v }) })
	}
	s.allow("adapters", func(string) (func(), error) {
		return nil, errors.New("adapters are loaded and unloaded one by one: POST and DELETE /api/v1/adapters (whorl adapters)")
	})
	live(s, "public-name", func(name string) (string, error) { return name, checkPublicName(name) }, func(name string) {
		tune(srv, func(c *server.Config) { c.PublicName = name })
	})
	live(s, "throughput", func(text string) (declared, error) {
		d, err := parseThroughput(text)
		switch {
		case err != nil:
			return d, err
		case d.how == server.MeasureNever, d.how == server.MeasureAuto && srv.Measured():
			return d, nil
		case d.how == server.MeasureAuto:
			return d, errors.New("nothing has been measured yet: run a benchmark (POST /api/v1/node/benchmark) first")
		}
		return d, fmt.Errorf("%q says what to do at the start: want auto or a number, and run a benchmark (POST /api/v1/node/benchmark)", text)
	}, func(d declared) {
		tune(srv, func(c *server.Config) { c.Measuring, c.Throughput = d.how, d.rate })
	})
}

// tune changes what was checked before.
func tune(srv *server.Server, change func(*server.Config)) {
	if err := srv.Tune(change); err != nil {
		slog.Error("a setting could not be changed", "reason", err)
	}
}
