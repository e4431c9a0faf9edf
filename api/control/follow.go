package control

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/internal/journal"
)

const (
	// maxFollowers follow or wait at the same time, maxOwnFollowers of them for one caller.
	maxFollowers, maxOwnFollowers = 64, 16
	// maxWait is the longest that a request for a list may wait for its first line.
	maxWait = 5 * time.Minute
)

// ListEvents tells what changes at this node.
func (a Dialect) ListEvents(w http.ResponseWriter, r *http.Request, params gen.ListEventsParams) {
	var types []string
	if params.Types != nil && *params.Types != "" {
		types = strings.Split(*params.Types, ",")
	}
	a.follow(w, r, a.Events, position(params.Since, params.LastEventID), params.Wait, func(kind string) bool {
		for _, t := range types {
			if kind == t || strings.HasPrefix(kind, t+".") {
				return true
			}
		}
		return len(types) == 0
	})
}

// ListLogs tells what this node logs.
func (a Dialect) ListLogs(w http.ResponseWriter, r *http.Request, params gen.ListLogsParams) {
	least := slog.LevelDebug
	if params.Level != nil {
		var err error
		if least, err = parseLevel(*params.Level); err != nil {
			a.Fail(w, r, err)
			return
		}
	}
	a.follow(w, r, a.Logs, position(params.Since, params.LastEventID), params.Wait, func(kind string) bool {
		level, err := parseLevel(gen.LogLevel(kind))
		return err != nil || level >= least
	})
}

// position is where a reader goes on: a browser that connects again says so by itself, and asks
// for the same URL as before.
func position(since, last *string) string {
	switch {
	case last != nil && *last != "":
		return *last
	case since != nil:
		return *since
	}
	return ""
}

// follow answers with lines as they come, or with those that there are if the request says how
// long to wait for one.
func (a Dialect) follow(w http.ResponseWriter, r *http.Request, log *journal.Log, since string, wait *string, shown func(kind string) bool) {
	long := time.Duration(-1)
	if wait != nil {
		var err error
		if long, err = time.ParseDuration(*wait); err != nil || long < 0 || long > maxWait {
			a.Fail(w, r, api.Invalid("wait", "wait is %q: want a duration such as 30s, at most %v", api.Clip(*wait), maxWait))
			return
		}
	}
	if _, _, ok := log.After(since); !ok {
		a.Fail(w, r, api.Invalid("since", "%q is not the id of a line", api.Clip(since)))
		return
	}
	leave, err := a.followers.enter(api.UserOf(r))
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	defer leave()
	if long >= 0 {
		a.listLines(w, r, log, since, long, shown)
		return
	}
	out := a.EventStream(w)
	out.Comment() // so that a reader sees at once that it is connected
	beat := time.NewTicker(a.Limits.KeepAlive)
	defer beat.Stop()
	for out.Err == nil {
		lines, more, _ := log.After(since)
		for _, l := range lines {
			if since = l.ID; shown(l.Kind) {
				out.SendLine(l.ID, l.Kind, l.Data)
			}
		}
		select {
		case <-more:
		case <-beat.C:
			out.Comment()
		case <-r.Context().Done():
			return
		}
	}
}

// listLines waits for a first line to show, for so long, and answers with all there are.
func (a Dialect) listLines(w http.ResponseWriter, r *http.Request, log *journal.Log, since string, long time.Duration, shown func(kind string) bool) {
	ctx, cancel := context.WithTimeout(r.Context(), long)
	defer cancel()
	out := lineList{Items: []journal.Line{}, Last: since}
	for {
		lines, more, _ := log.After(out.Last)
		for _, l := range lines {
			if out.Last = l.ID; shown(l.Kind) {
				out.Items = append(out.Items, l)
			}
		}
		if len(out.Items) > 0 {
			break
		}
		select {
		case <-more:
			continue
		case <-ctx.Done():
		}
		break
	}
	api.Reply(w, out)
}

// lineList is a list of lines, and where to go on.
type lineList struct {
	Items []journal.Line `json:"items"`
	Last  string         `json:"last"`
}
