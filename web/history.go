package web

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"whorl/store"
	"whorl/swarm"
	"whorl/web/view"
)

// chartKey names what was read of the history.
type chartKey struct {
	model swarm.UID
	peer  swarm.PeerID
	span  time.Duration
}

// maxCharts bounds what is kept of one load of the history.
const maxCharts = 64

// cached gives a history that was made since the history was last loaded, or makes it.
// What could not be read is not kept.
func (s *Site) cached(key chartKey, make func() (view.History, error)) view.History {
	s.mu.Lock()
	h, ok := s.charts[key]
	s.mu.Unlock()
	if ok {
		return h
	}
	h, err := make()
	if err != nil {
		return view.History{Note: unavailable, Empty: true}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.charts == nil || len(s.charts) >= maxCharts {
		s.charts = map[chartKey]view.History{}
	}
	s.charts[key] = h
	return h
}

// chosen is the step of a span and the links to the others.
func chosen(path string, ask modelQuery) (step time.Duration, links []view.Sort) {
	for i, r := range ranges {
		name := r.name
		if i == 0 {
			name = ""
		}
		links = append(links, view.Sort{Text: r.name, Link: link(path, ask.args, "range", name) + "#history", Current: r.span == ask.span})
		if r.span == ask.span {
			step = r.step
		}
	}
	slices.SortStableFunc(links, func(a, b view.Sort) int { return lengthOf(a.Text) - lengthOf(b.Text) })
	return step, links
}

// lengthOf orders "1h", "24h", "7d".
func lengthOf(name string) int {
	n, _ := strconv.Atoi(name[:len(name)-1])
	if name[len(name)-1] == 'd' {
		n *= 24
	}
	return n
}

// modelHistory is the past of a model.
func (s *Site) modelHistory(ctx context.Context, snap *snapshot, uid swarm.UID, ask modelQuery, path string) view.History {
	step, links := chosen(path, ask)
	h := s.cached(chartKey{model: uid, span: ask.span}, func() (view.History, error) {
		w, rows, err := fitted(s, ctx, snap.past.at, ask.span, step, func(c store.Coverage) time.Time { return c.At },
			func(ctx context.Context, w store.Window) ([]store.Coverage, error) {
				return s.deps.Store.Coverage(ctx, uid, w)
			})
		return coverageHistory(rows, w), err
	})
	return s.finish(h, snap, links)
}

// finest is the least step of a chart, and shortest the least time one shows.
const (
	finest   = 15 * time.Second
	shortest = 2 * time.Minute
)

// fitted reads the rows of a span that ends now. A history that is much younger than the
// span is shown whole and finer: a sliver at the right edge would tell nothing.
func fitted[T any](s *Site, ctx context.Context, now time.Time, span, step time.Duration, at func(T) time.Time,
	read func(context.Context, store.Window) ([]T, error)) (w store.Window, rows []T, err error) {
	w = store.Window{From: now.Add(-span), To: now, Step: step}
	err = s.read(ctx, func(ctx context.Context) (err error) {
		asked := w
		asked.To = now.Add(time.Second) // what was written just now, too
		if rows, err = read(ctx, asked); err != nil || len(rows) == 0 {
			return err
		}
		first := at(rows[0]) // of its step the worst moment, not the first
		if now.Sub(first) > span/4 {
			return nil
		}
		w.Step = max(finest, (now.Sub(first) / 288).Round(finest))
		asked.From, asked.Step = first.Add(-step), w.Step
		if rows, err = read(ctx, asked); err == nil && len(rows) > 0 {
			w.From = now.Add(-max(now.Sub(at(rows[0])), shortest))
		}
		return err
	})
	return w, rows, err
}

// finish adds what is not of the past.
func (s *Site) finish(h view.History, snap *snapshot, links []view.Sort) view.History {
	h.Ranges = links
	if p := &snap.past; p.err != nil && h.Note == "" {
		h.Note = "History unavailable since " + view.Clock(p.since) + "; this is what was read before."
	}
	return h
}

// gapOf is how far apart two samples may lie and still be joined by a line.
func gapOf(step time.Duration) time.Duration { return 2*step + 30*time.Second }

// redundancyChart draws the holders of the scarcest block.
func redundancyChart(rows []store.Coverage, w store.Window) view.Chart {
	points := make([]view.Point, len(rows))
	for i, c := range rows {
		n := float64(c.MinRedundancy)
		points[i] = view.Point{At: c.At.Truncate(w.Step), Value: &n}
	}
	ch := view.NewChart(points, w.From, w.To, gapOf(w.Step), func(v float64) bool { return v == 0 })
	ch.Title, ch.Last = "Holders of the scarcest block", "none"
	if len(rows) > 0 {
		ch.Last = strconv.Itoa(rows[len(rows)-1].MinRedundancy)
	}
	return ch
}

// coverageHistory draws samples of a model.
func coverageHistory(rows []store.Coverage, w store.Window) view.History {
	line := func(title string, of func(*store.Coverage) *float64) view.Chart {
		points := make([]view.Point, len(rows))
		for i := range rows {
			points[i] = view.Point{At: rows[i].At.Truncate(w.Step), Value: of(&rows[i])}
		}
		c := view.NewChart(points, w.From, w.To, gapOf(w.Step), nil)
		c.Title, c.Last = title, view.NotMeasured
		if len(rows) > 0 {
			c.Last = view.Rate(of(&rows[len(rows)-1]))
		}
		return c
	}
	h := view.History{Empty: len(rows) == 0, Heads: []string{"Holders at least", "Missing", "Servers", "All sessions", "One session", "Free cache"}}
	h.Charts = []view.Chart{redundancyChart(rows, w),
		line("Throughput, all sessions together", func(c *store.Coverage) *float64 { return c.Bottleneck }),
		line("Speed of one session, estimated", func(c *store.Coverage) *float64 { return c.SessionTPS })}
	for _, c := range perTable(rows) {
		missing := swarm.FormatSpans(c.Missing)
		if missing == "" {
			missing = "none"
		}
		h.Rows = append(h.Rows, view.HistoryRow{At: c.At, Values: []string{fmt.Sprint(c.MinRedundancy), view.Cut(missing, 40), fmt.Sprint(c.Servers), view.Rate(c.Bottleneck), view.Rate(c.SessionTPS), view.Count(c.CacheLeft)}})
	}
	return h
}

// perTable thins rows for the table behind charts, newest first.
func perTable[T any](rows []T) []T {
	const most = 60
	every := max(1, (len(rows)+most-1)/most)
	var out []T
	for i := len(rows) - 1; i >= 0; i -= every {
		out = append(out, rows[i])
	}
	return out
}

// serverHistory is the past of one server.
func (s *Site) serverHistory(ctx context.Context, snap *snapshot, peer swarm.PeerID, ask modelQuery, path string) view.History {
	step, links := chosen(path, ask)
	h := s.cached(chartKey{peer: peer, span: ask.span}, func() (view.History, error) {
		w, rows, err := fitted(s, ctx, snap.past.at, ask.span, step, func(o store.Observation) time.Time { return o.At },
			func(ctx context.Context, w store.Window) ([]store.Observation, error) {
				return s.deps.Store.Observations(ctx, peer, w)
			})
		return observationHistory(rows, w), err
	})
	return s.finish(h, snap, links)
}

// observationHistory draws what a server said of itself.
func observationHistory(rows []store.Observation, w store.Window) view.History {
	line := func(title string, of func(*store.Observation) *float64, say func(*float64) string) view.Chart {
		points := make([]view.Point, len(rows))
		for i := range rows {
			points[i] = view.Point{At: rows[i].At.Truncate(w.Step), Value: of(&rows[i])}
		}
		c := view.NewChart(points, w.From, w.To, gapOf(w.Step), nil)
		c.Title, c.Last = title, view.NotMeasured
		if len(rows) > 0 {
			c.Last = say(of(&rows[len(rows)-1]))
		}
		return c
	}
	h := view.History{Empty: len(rows) == 0, Heads: []string{"State", "Blocks", "Throughput", "Decode", "Free cache", "Version"}}
	h.Charts = []view.Chart{
		line("Throughput", func(o *store.Observation) *float64 {
			if o.Throughput == 0 {
				return nil
			}
			return &o.Throughput
		}, view.Rate),
		line("Free cache, tokens", func(o *store.Observation) *float64 {
			left := float64(o.CacheLeft)
			return &left
		}, func(f *float64) string { return view.Count(int64(*f)) }),
	}
	for _, o := range perTable(rows) {
		h.Rows = append(h.Rows, view.HistoryRow{At: o.At, Values: []string{o.State.String(), o.Span.String(), throughput(o.Throughput), view.Rate(o.Rates.InferenceRPS), view.Count(o.CacheLeft), version(o.Version)}})
	}
	return h
}
