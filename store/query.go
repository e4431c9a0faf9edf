package store

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"whorl/swarm"
)

// query runs a query and reads its rows.
func query[T any](ctx context.Context, p *Postgres, what string, scan func(pgx.CollectableRow) (T, error), sql string, args ...any) ([]T, error) {
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	rows, err := p.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, p.failed(what, err)
	}
	out, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, p.failed(what, err)
	}
	return out, nil
}

// step is the SQL that numbers a row's step; $4 is the length of one in microseconds.
const step = `floor(extract(epoch from at) * 1000000 / $4::bigint)::bigint`

// Crawls implements Reader.
func (p *Postgres) Crawls(ctx context.Context, w Window) ([]Crawl, error) {
	out, err := query(ctx, p, "read crawls", func(row pgx.CollectableRow) (c Crawl, err error) {
		var ms float64
		err = row.Scan(&c.Started, &ms, &c.Error)
		c.Started, c.Duration = c.Started.UTC(), time.Duration(ms*float64(time.Millisecond))
		return c, err
	}, `select started, duration_ms, error from crawl where started >= $1 and started < $2 order by started desc, id desc limit $3`, w.From, w.To, maxRows)
	slices.Reverse(out)
	return out, err
}

// Coverage implements Reader.
func (p *Postgres) Coverage(ctx context.Context, model swarm.UID, w Window) ([]Coverage, error) {
	out, err := query(ctx, p, "read coverage", scanCoverage, `select model, model_name, at, counts, min_redundancy, servers, bottleneck, session_tps, cache_left
		from (select distinct on (case when $4::bigint > 0 then `+step+` else id end) * from coverage
			where model = $1 and at >= $2 and at < $3
			order by case when $4::bigint > 0 then `+step+` else id end, min_redundancy, missing_blocks desc, at desc) c
		order by at desc limit $5`, model, w.From, w.To, w.Step.Microseconds(), maxRows)
	slices.Reverse(out)
	return out, err
}

func scanCoverage(row pgx.CollectableRow) (c Coverage, err error) {
	var packed []byte
	if err := row.Scan(&c.Model, &c.ModelName, &c.At, &packed, &c.MinRedundancy, &c.Servers, &c.Bottleneck, &c.SessionTPS, &c.CacheLeft); err != nil {
		return c, err
	}
	c.At = c.At.UTC()
	if c.Counts, err = unpackCounts(packed); err != nil {
		return c, err
	}
	c.Missing = c.Thin(1)
	return c, nil
}

const observationColumns = `model, model_name, peer, span_start, span_end, state, inference_rps, forward_rps, network_rps, throughput, cache_total, cache_left, version, public_name, relay`

// targets are where the columns go.
func (o *Observation) targets() []any {
	return []any{&o.Model, &o.ModelName, &o.Peer, &o.Span.Start, &o.Span.End, (*stateText)(&o.State), &o.Rates.InferenceRPS, &o.Rates.ForwardRPS,
		&o.Rates.NetworkRPS, &o.Throughput, &o.CacheTotal, &o.CacheLeft, &o.Version, &o.PublicName, &o.Relay}
}

// stateText reads a state from its name.
type stateText swarm.State

// Scan implements sql.Scanner.
func (s *stateText) Scan(src any) error {
	name, _ := src.(string)
	return (*swarm.State)(s).UnmarshalText([]byte(name))
}

// Observations implements Reader.
func (p *Postgres) Observations(ctx context.Context, peer swarm.PeerID, w Window) ([]Observation, error) {
	out, err := query(ctx, p, "read observations", func(row pgx.CollectableRow) (o Observation, err error) {
		err = row.Scan(append([]any{&o.At}, o.targets()...)...)
		o.At = o.At.UTC()
		return o, err
	}, `select at, `+observationColumns+`
		from (select distinct on (case when $4::bigint > 0 then `+step+` else id end) * from observation
			where peer = $1 and at >= $2 and at < $3
			order by case when $4::bigint > 0 then `+step+` else id end, at desc) o
		order by at desc limit $5`, peer, w.From, w.To, w.Step.Microseconds(), maxRows)
	slices.Reverse(out)
	return out, err
}

// Servers implements Reader.
func (p *Postgres) Servers(ctx context.Context, model swarm.UID, since time.Time) ([]Server, error) {
	return query(ctx, p, "read servers", func(row pgx.CollectableRow) (s Server, err error) {
		err = row.Scan(append([]any{&s.First, &s.At}, s.targets()...)...)
		s.First, s.At = s.First.UTC(), s.At.UTC()
		return s, err
	}, `select first_seen, last_seen, `+observationColumns+` from server
		where last_seen >= $1 and ($2 = '' or model = $2) order by last_seen desc, model, peer limit $3`, since, model, maxRows)
}

// Events implements Reader.
func (p *Postgres) Events(ctx context.Context, q EventQuery) ([]Event, error) {
	return query(ctx, p, "read events", func(row pgx.CollectableRow) (e Event, err error) {
		err = row.Scan(&e.ID, &e.At, &e.Kind, &e.Model, &e.ModelName, &e.Peer, &e.PublicName, &e.Span.Start, &e.Span.End, &e.Detail)
		e.At = e.At.UTC()
		return e, err
	}, `select id, at, kind, model, model_name, peer, public_name, span_start, span_end, detail from event
		where ($1::bigint = 0 or id < $1) and ($2 = '' or model = $2) and ($3 = '' or peer = $3) order by id desc limit $4`,
		q.Before, q.Model, q.Peer, q.limit())
}
