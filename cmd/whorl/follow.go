package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"whorl/internal/journal"
	"whorl/internal/wiring"
)

// followWait is how long a node may keep a request for lines open.
const followWait = 30 * time.Second

func newEvents(w *world) *cobra.Command {
	var types string
	cmd := followCommand(w, "events", "Tell what changes at a node of this machine", func() (string, url.Values) {
		return v1 + "/events", url.Values{"types": {types}}
	})
	cmd.Flags().StringVar(&types, "types", "", "only these `KINDS`, such as session,peer.avoided")
	return cmd
}

func newLogs(w *world) *cobra.Command {
	var level string
	cmd := followCommand(w, "logs", "Show the log of a node of this machine", func() (string, url.Values) {
		return v1 + "/logs", url.Values{"level": {level}}
	})
	cmd.Flags().StringVar(&level, "level", "debug", "the least `LEVEL` that is shown; the node keeps those of its own level (whorl node config log-level=debug)")
	return cmd
}

// followCommand prints the lines that a node keeps, and on -f those that come, until it is
// interrupted.
func followCommand(w *world, use, short string, where func() (path string, query url.Values)) *cobra.Command {
	f := new(adminFlags)
	var on bool
	var since string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, query := where()
			if since != "" {
				query.Set("since", since)
			}
			err := f.follow(cmd.Context(), w, path, query, on)
			if on && cmd.Context().Err() != nil {
				return nil // that is how following ends
			}
			return err
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().BoolVarP(&on, "follow", "f", false, "go on with what comes, until interrupted")
	cmd.Flags().StringVar(&since, "since", "", "only what came after the line with this `ID`")
	return cmd
}

func (f *adminFlags) follow(ctx context.Context, w *world, path string, query url.Values, on bool) error {
	for name, v := range query {
		if v[0] == "" {
			query.Del(name)
		}
	}
	query.Set("wait", "0s")
	for {
		list, err := f.lines(ctx, path+"?"+query.Encode())
		if err != nil {
			return err
		}
		for _, l := range list.Items {
			text := lineText(l)
			if f.json {
				b, err := json.Marshal(l)
				if err != nil {
					return err
				}
				text = string(b)
			}
			if _, err := fmt.Fprintln(w.out, text); err != nil {
				return err
			}
		}
		if !on {
			return nil
		}
		query.Set("wait", followWait.String())
		query.Set("since", list.Last)
	}
}

// lines are those that the node has, or has within the time that the path says.
func (f *adminFlags) lines(ctx context.Context, path string) (list struct {
	Items []journal.Line
	Last  string
}, err error) {
	ctx, cancel := context.WithTimeout(ctx, followWait+adminTimeout)
	defer cancel()
	b, _, err := f.ask(ctx, http.MethodGet, path, nil, "application/json")
	if err != nil {
		return list, err
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return list, errors.New("what answers is no node of whorl")
	}
	return list, nil
}

// lineText is a line for people: time, kind, message and the rest as name=value.
func lineText(l journal.Line) string {
	var data map[string]any
	if json.Unmarshal(l.Data, &data) != nil {
		data = map[string]any{"data": string(l.Data)}
	}
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s %s", l.Time.Local().Format("2006-01-02 15:04:05.000"), l.Kind)
	if text, ok := data["message"].(string); ok {
		sb.WriteString(" " + text)
		delete(data, "message")
	}
	if attrs, ok := data["attrs"].(map[string]any); ok {
		delete(data, "attrs")
		maps.Copy(data, attrs)
	}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		text, ok := data[name].(string)
		if !ok {
			b, _ := json.Marshal(data[name])
			text = string(b)
		}
		if strings.ContainsAny(text, " \"\n") || text == "" {
			text = fmt.Sprintf("%q", text)
		}
		fmt.Fprintf(&sb, " %s=%s", name, text)
	}
	return wiring.OneLine(errors.New(sb.String()))
}
