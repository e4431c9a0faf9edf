package routes

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"whorl/api"
	"whorl/swarm"
)

// Connect reaches 12D3KooWa alone.
func (n *fakeNode) Connect(ctx context.Context, addr string) (swarm.PeerID, error) {
	_, id, ok := strings.Cut(addr, "/p2p/")
	if !ok {
		return "", fmt.Errorf("peer address %q: want /ip4/HOST/tcp/PORT/p2p/ID", addr)
	}
	_, err := n.Ping(ctx, swarm.PeerID(id))
	return swarm.PeerID(id), err
}

func (n *fakeNode) Disconnect(p swarm.PeerID) bool { return p == "12D3KooWa" }

// fakeSettings has a log level, which may change, and a port, which may not.
type fakeSettings struct{ values map[string]string }

func (s *fakeSettings) List() []api.Setting {
	return []api.Setting{{Name: "log-level", Value: s.values["log-level"], Source: "flag"}, {Name: "port", Value: s.values["port"], Source: "default", Restart: true}}
}

func (s *fakeSettings) Level() (l slog.Level) {
	l.UnmarshalText([]byte(s.values["log-level"]))
	return l
}

func (s *fakeSettings) Change(values map[string]*string) error {
	for name, text := range values {
		switch {
		case name != "log-level":
			return api.Refused(api.CodeNeedsRestart, "%s cannot change while the node runs", name)
		case text == nil:
			s.values[name] = "info"
		default:
			s.values[name] = *text
		}
	}
	return nil
}
