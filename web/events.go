package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"whorl/store"
	"whorl/swarm"
	"whorl/web/view"
)

// events are shown rows of the history. withModel says of which model each is.
func (s *Site) events(snap *snapshot, all []store.Event, withModel bool) view.Events {
	out := view.Events{}
	if p := &snap.past; p.err != nil {
		out.Note = "History unavailable; changes since " + view.Clock(p.since) + " are shown later."
	}
	for i := range all {
		out.Rows = append(out.Rows, eventRow(&all[i], withModel))
	}
	return out
}

var eventTones = map[store.Kind]view.Tone{
	store.ServerOnline: view.Good, store.ServerJoining: view.Warn, store.ServerDraining: view.Warn, store.ServerMoved: view.Warn, store.ServerIntends: view.Warn,
	store.ServerOffline: view.Bad, store.ModelHealthy: view.Good, store.ModelDegraded: view.Warn, store.ModelBroken: view.Bad,
}

// eventRow puts an event in words.
func eventRow(e *store.Event, withModel bool) view.EventRow {
	row := view.EventRow{At: e.At, Tone: eventTones[e.Kind], What: string(e.Kind)}
	model := view.PublicName(e.ModelName).Text
	if e.Peer == "" {
		row.Subject, row.Title, row.Link = model, string(e.Model), modelPath(e.Model)
	} else {
		row.Subject, row.Title, row.Link = view.ShortID(string(e.Peer)), string(e.Peer), serverPath(e.Peer)
		row.Name = view.PublicName(e.PublicName)
	}
	of := ""
	if withModel {
		of = " of " + model
	}
	blocks := fmt.Sprintf("blocks %d-%d%s", e.Span.Start, e.Span.End-1, of)
	if e.Span.Len() == 1 {
		blocks = fmt.Sprintf("block %d%s", e.Span.Start, of)
	}
	detail := view.Cut(e.Detail, 80)
	switch e.Kind {
	case store.ServerJoining:
		row.What = "loads " + blocks
	case store.ServerOnline:
		row.What = "serves " + blocks
	case store.ServerDraining:
		row.What = "takes no new sessions on " + blocks
	case store.ServerOffline:
		row.What = "left with " + blocks
	case store.ServerMoved:
		row.What = "moved from " + detail + " to " + blocks
	case store.ServerIntends:
		row.What = "means to move from " + blocks + " to " + detail
	case store.ModelHealthy:
		row.What = "is healthy"
		if detail != "" {
			row.What += ", " + detail
		}
	case store.ModelDegraded:
		row.What = "is degraded: " + detail
	case store.ModelBroken:
		row.What = "is broken: blocks " + detail + " are missing"
	}
	return row
}

// eventsPage lists changes back to the oldest that is kept.
func (s *Site) eventsPage(r *http.Request, snap *snapshot) (*view.Page, int) {
	const rows = 100
	args := url.Values{}
	q := store.EventQuery{Limit: rows}
	if before, err := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64); err == nil && before > 0 {
		q.Before = before
		args.Set("before", strconv.FormatInt(before, 10))
	}
	if model := r.URL.Query().Get("model"); hexadecimal(model) {
		q.Model = swarm.UID(model)
		args.Set("model", model)
	}
	p := s.frame(snap, "Changes", "events", "/events", args)
	p.Live = "" // a page of the past does not change
	var all []store.Event
	err := s.read(r.Context(), func(ctx context.Context) (err error) {
		all, err = s.deps.Store.Events(ctx, q)
		return err
	})
	e := s.events(snap, all, true)
	if err != nil {
		e.Note = unavailable
	}
	if len(all) == rows {
		e.More = link("/events", args, "before", strconv.FormatInt(all[rows-1].ID, 10))
	}
	view.EventsSections(p, e)
	return p, http.StatusOK
}

// unavailable is what pages say in place of history they could not read.
const unavailable = "History unavailable: it could not be read. Serving does not need it."

// read gives a page's question to the history its time.
func (s *Site) read(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	err := f(ctx)
	if err != nil && ctx.Err() != context.Canceled {
		s.log.Debug("dashboard: history not read", "error", err)
	}
	return err
}

// hexadecimal tells whether a text may be a model's id: hexadecimal digits.
func hexadecimal(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for _, r := range s {
		if !(r >= '0' && r <= '9' || r >= 'a' && r <= 'f') {
			return false
		}
	}
	return true
}
