package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"whorl/swarm"
)

// Memory keeps history in bounded memory; it is gone with the process.
type Memory struct {
	limits Limits

	mu           sync.Mutex // guards all below
	crawls       ring[crawlRow]
	coverage     ring[coverageRow]
	observations ring[Observation]
	events       ring[Event]
	servers      map[serverKey]Server
	lastEvent    map[serverKey]Event // per subject, as far as events reach back
	nextID       int64
}

type crawlRow struct {
	source swarm.PeerID
	Crawl
}

// coverageRow holds the counts packed: a model of 4096 blocks would need 32 KiB a sample.
type coverageRow struct {
	Coverage
	packed []byte
}

type serverKey struct {
	model swarm.UID
	peer  swarm.PeerID
}

// NewMemory makes an empty one.
func NewMemory(l Limits) *Memory {
	return &Memory{
		limits: l, crawls: newRing[crawlRow](l.Crawls), coverage: newRing[coverageRow](l.Coverage),
		observations: newRing[Observation](l.Observations), events: newRing[Event](l.Events),
		servers: map[serverKey]Server{}, lastEvent: map[serverKey]Event{}, nextID: 1,
	}
}

// Write keeps a sample.
func (m *Memory) Write(ctx context.Context, s Sample) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s = s.clean()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := m.crawls.len() - 1; i >= 0; i-- {
		if c := m.crawls.at(i); c.source == s.Source && c.Started.Equal(s.Crawl.Started) {
			return nil
		} else if c.source == s.Source && c.Started.Before(s.Crawl.Started) {
			break
		}
	}
	m.crawls.push(crawlRow{s.Source, s.Crawl})
	for _, c := range s.Coverage {
		row := coverageRow{Coverage: c, packed: packCounts(c.Counts)}
		row.Counts = nil
		m.coverage.push(row)
	}
	for _, o := range s.Observations {
		m.observations.push(o)
		k := serverKey{o.Model, o.Peer}
		old, known := m.servers[k]
		switch {
		case !known:
			m.servers[k] = Server{Observation: o, First: o.At}
		case !o.At.Before(old.At):
			m.servers[k] = Server{Observation: o, First: old.First}
		}
	}
	for _, e := range s.Events {
		k := serverKey{e.Model, e.Peer}
		if last, known := m.lastEvent[k]; known && e.repeats(&last) {
			continue
		}
		e.ID = m.nextID
		m.nextID++
		m.events.push(e)
		m.lastEvent[k] = e
	}
	m.trim()
	return nil
}

// trim bounds the maps: servers seen longest ago go first, and subjects whose last event
// has left the ring are forgotten.
func (m *Memory) trim() {
	if over := len(m.servers) - m.limits.Servers; over > 0 {
		all := m.sortedServers()
		for _, s := range all[len(all)-over:] {
			delete(m.servers, serverKey{s.Model, s.Peer})
		}
	}
	if len(m.lastEvent) > m.limits.Events {
		m.forgetSubjects()
	}
}

func (m *Memory) forgetSubjects() {
	oldest := m.nextID
	if m.events.len() > 0 {
		oldest = m.events.at(0).ID
	}
	for k, e := range m.lastEvent {
		if e.ID < oldest {
			delete(m.lastEvent, k)
		}
	}
}

// sortedServers are those seen last first.
func (m *Memory) sortedServers() []Server {
	all := make([]Server, 0, len(m.servers))
	for _, s := range m.servers {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Server) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(string(a.Model), string(b.Model)), strings.Compare(string(a.Peer), string(b.Peer)))
	})
	return all
}

// Prune forgets what is too old; numbers are bounded at every write.
func (m *Memory) Prune(ctx context.Context, now time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cut := now.Add(-m.limits.Age)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crawls.drop(func(c crawlRow) bool { return c.Started.Before(cut) })
	m.coverage.drop(func(c coverageRow) bool { return c.At.Before(cut) })
	m.observations.drop(func(o Observation) bool { return o.At.Before(cut) })
	m.events.drop(func(e Event) bool { return e.At.Before(cut) })
	m.forgetSubjects()
	for k, s := range m.servers {
		if s.At.Before(cut) {
			delete(m.servers, k)
		}
	}
	return nil
}

// Crawls implements Reader.
func (m *Memory) Crawls(ctx context.Context, w Window) ([]Crawl, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Crawl
	for i := m.crawls.len() - 1; i >= 0 && len(out) < maxRows; i-- {
		if c := m.crawls.at(i); w.holds(c.Started) {
			out = append(out, c.Crawl)
		}
	}
	slices.SortStableFunc(out, func(a, b Crawl) int { return a.Started.Compare(b.Started) })
	return out, ctx.Err()
}

// Coverage implements Reader.
func (m *Memory) Coverage(ctx context.Context, model swarm.UID, w Window) ([]Coverage, error) {
	m.mu.Lock()
	var rows []coverageRow
	for i := 0; i < m.coverage.len(); i++ {
		if c := m.coverage.at(i); c.Model == model && w.holds(c.At) {
			rows = append(rows, c)
		}
	}
	m.mu.Unlock()
	slices.SortStableFunc(rows, func(a, b coverageRow) int { return a.At.Compare(b.At) })
	rows = perStep(rows, w, func(r coverageRow) time.Time { return r.At }, func(a, b coverageRow) bool { return a.worse(&b.Coverage) })
	out := make([]Coverage, len(rows))
	for i, r := range rows {
		var err error
		if r.Counts, err = unpackCounts(r.packed); err != nil {
			return nil, err
		}
		out[i] = r.Coverage
	}
	return out, ctx.Err()
}

// Observations implements Reader.
func (m *Memory) Observations(ctx context.Context, peer swarm.PeerID, w Window) ([]Observation, error) {
	m.mu.Lock()
	var out []Observation
	for i := 0; i < m.observations.len(); i++ {
		if o := m.observations.at(i); o.Peer == peer && w.holds(o.At) {
			out = append(out, o)
		}
	}
	m.mu.Unlock()
	slices.SortStableFunc(out, func(a, b Observation) int { return a.At.Compare(b.At) })
	return perStep(out, w, func(o Observation) time.Time { return o.At }, func(a, b Observation) bool { return a.At.After(b.At) }), ctx.Err()
}

// perStep keeps one row of each step, the one that is preferred over all others, and the
// newest maxRows. rows are sorted by time.
func perStep[T any](rows []T, w Window, at func(T) time.Time, prefer func(a, b T) bool) []T {
	if w.Step > 0 {
		kept := rows[:0]
		for _, r := range rows {
			last := len(kept) - 1
			switch {
			case last < 0 || w.bucket(at(kept[last])) != w.bucket(at(r)):
				kept = append(kept, r)
			case prefer(r, kept[last]):
				kept[last] = r
			}
		}
		rows = kept
	}
	return rows[max(0, len(rows)-maxRows):]
}

// Servers implements Reader.
func (m *Memory) Servers(ctx context.Context, model swarm.UID, since time.Time) ([]Server, error) {
	m.mu.Lock()
	all := m.sortedServers()
	m.mu.Unlock()
	all = slices.DeleteFunc(all, func(s Server) bool { return s.At.Before(since) || model != "" && s.Model != model })
	return all[:min(len(all), maxRows)], ctx.Err()
}

// Events implements Reader.
func (m *Memory) Events(ctx context.Context, q EventQuery) ([]Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Event
	for i := m.events.len() - 1; i >= 0 && len(out) < q.limit(); i-- {
		e := m.events.at(i)
		if (q.Before == 0 || e.ID < q.Before) && (q.Model == "" || e.Model == q.Model) && (q.Peer == "" || e.Peer == q.Peer) {
			out = append(out, e)
		}
	}
	return out, ctx.Err()
}
