package control

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
)

const (
	// maxPoints is the most steps of a history.
	maxPoints = 2000
	// maxReaders read the history at the same time: anybody may ask, and it may be a database.
	maxReaders = 8
	// eventsPage is how many events a page has if nobody says.
	eventsPage = 50
	// defaultPast and defaultPoints are what a history covers if nobody says.
	defaultPast   = 24 * time.Hour
	defaultPoints = 288
)

// reading runs f if few others read the history.
func (a Dialect) reading(w http.ResponseWriter, r *http.Request, f func() error) {
	if a.History == nil {
		a.Fail(w, r, api.Refused(api.CodeNotFound, "this node keeps no history: nodes with --http do"))
		return
	}
	select {
	case a.readers <- struct{}{}:
		defer func() { <-a.readers }()
	default:
		a.Fail(w, r, api.Refused(api.CodeQueueFull, "%d requests read the history, which is the most: ask again in a second", maxReaders))
		return
	}
	if err := f(); err != nil {
		a.Fail(w, r, err)
	}
}

// GetHistory tells the past of a model.
func (a Dialect) GetHistory(w http.ResponseWriter, r *http.Request, id gen.ModelID, params gen.GetHistoryParams) {
	a.reading(w, r, func() error {
		v, err := a.view(id)
		if err != nil {
			return err
		}
		now := time.Now()
		to, err := pointInTime("to", params.To, now, now)
		if err != nil {
			return err
		}
		from, err := pointInTime("from", params.From, now, to.Add(-defaultPast))
		if err != nil {
			return err
		}
		long := to.Sub(from)
		if long <= 0 {
			return api.Invalid("from", "from lies behind to")
		}
		step := max(time.Second, long/defaultPoints)
		if params.Step != nil {
			if step, err = time.ParseDuration(*params.Step); err != nil || step < time.Second {
				return api.Invalid("step", "step is %q: want a duration such as 5m, at least 1s", api.Clip(*params.Step))
			}
		}
		if long/step > maxPoints {
			return api.Invalid("step", "%v in steps of %v are %d points, of which at most %d fit: ask for longer steps or less time", long, step, long/step, maxPoints)
		}
		past, err := a.History.Coverage(r.Context(), v.Manifest.UID(), from, to, step)
		if err != nil {
			return err
		}
		out := make([]gen.HistoryPoint, 0, len(past))
		for _, p := range past {
			point := gen.HistoryPoint{At: p.At.UTC(), ServersOnline: p.Servers, MinRedundancy: p.MinRedundancy, Missing: missing(&p.Coverage), CacheTokensLeft: p.CacheLeft}
			if p.Bottleneck != nil {
				point.Throughput = *p.Bottleneck
			}
			out = append(out, point)
		}
		replyList(a, w, r, historyTable, out, nil, nil)
		return nil
	})
}

// pointInTime reads a time, or how long ago it was.
func pointInTime(field string, text *string, now, absent time.Time) (time.Time, error) {
	if text == nil || *text == "" {
		return absent, nil
	}
	if ago, err := time.ParseDuration(*text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339, *text)
	if err != nil {
		return t, api.Invalid(field, "%s is %q: want a time such as 2025-06-15T15:06:40Z, or how long ago, such as 90m", field, api.Clip(*text))
	}
	return t, nil
}

// ListSwarmEvents tells what happened in the swarm, newest first.
func (a Dialect) ListSwarmEvents(w http.ResponseWriter, r *http.Request, params gen.ListSwarmEventsParams) {
	a.reading(w, r, func() error {
		var model swarm.UID
		if params.Model != nil && *params.Model != "" {
			v, err := a.view(*params.Model)
			if err != nil {
				return err
			}
			model = v.Manifest.UID()
		}
		peer := swarm.PeerID(api.Value(params.Peer, ""))
		if peer != "" && !isPeerID(string(peer)) {
			return noPeerID(string(peer))
		}
		limit := api.Value(params.Limit, eventsPage)
		if limit < 1 || limit > maxPage {
			return api.Invalid("limit", "limit is %d: want 1 to %d", limit, maxPage)
		}
		before := int64(0)
		if text := api.Value(params.Cursor, ""); text != "" {
			var err error
			if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
				return api.Invalid("cursor", "%q is not the next_cursor of a page", api.Clip(text))
			}
		}
		happened, err := a.History.Events(r.Context(), model, peer, before, limit)
		if err != nil {
			return err
		}
		out := list[gen.SwarmEvent]{Items: []gen.SwarmEvent{}}
		for _, h := range happened {
			e := gen.SwarmEvent{At: h.At.UTC(), Kind: gen.SwarmEventKind(h.Kind), Model: string(h.Model), ModelName: h.ModelName, PeerId: filled(string(h.Peer)), PublicName: filled(h.Name), Detail: filled(h.Detail)}
			if h.Span != nil {
				e.Span = &gen.Span{Start: h.Span.Start, End: h.Span.End}
			}
			out.Items = append(out.Items, e)
		}
		if n := len(happened); n == limit {
			out.Next = fmt.Sprint(happened[n-1].ID)
		}
		if wantsText(r) {
			writeTable(w, eventColumns, out.Items)
			return nil
		}
		api.Reply(w, out)
		return nil
	})
}

// filled is a text, nil if there is none.
func filled(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
