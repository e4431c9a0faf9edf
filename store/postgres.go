package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"whorl/migrations"
	"whorl/swarm"
)

// Postgres keeps history in a database that several gateways may share.
type Postgres struct {
	limits   Limits
	pool     *pgxpool.Pool
	migrated atomic.Bool
	turn     chan struct{} // holds one token: whoever has it may migrate
}

const (
	connectTimeout = 2 * time.Second
	poolSize       = 4 // the refresh loop, two pages and a spare
	// channel is where gateways tell each other that events were added; the payload is the
	// source.
	channel = "whorl_history"
	// eventLock serialises the writers of events, so that each sees the last one.
	eventLock = 0x77686f726c // "whorl"
)

// OpenPostgres prepares the use of a database, given as a URL or as key=value pairs. It
// does not connect: a database that is down now may come later, and every call then fails
// until it is there. Ready tells. Close it after use.
func OpenPostgres(url string, l Limits) (*Postgres, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err) // pgx hides the password
	}
	cfg.MaxConns, cfg.MinConns = poolSize, 0
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	cfg.ConnConfig.RuntimeParams["application_name"] = "whorl"
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg) // the pool lives until Close
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	p := &Postgres{limits: l, pool: pool, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p, nil
}

// Close ends all connections. Running calls end first.
func (p *Postgres) Close() { p.pool.Close() }

// Ready tells whether the database answers and has the schema; it brings the schema up to
// date if that was not done yet.
func (p *Postgres) Ready(ctx context.Context) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	if err := p.pool.Ping(ctx); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	return nil
}

// prepare applies the migrations once. Gateways that start together wait for each other.
func (p *Postgres) prepare(ctx context.Context) error {
	if p.migrated.Load() {
		return nil
	}
	select {
	case <-p.turn:
	case <-ctx.Done():
		return fmt.Errorf("database: another call prepares it: %w", ctx.Err())
	}
	defer func() { p.turn <- struct{}{} }()
	if p.migrated.Load() {
		return nil
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 30))
	if err != nil {
		return fmt.Errorf("database migrations: %w", err)
	}
	db := stdlib.OpenDBFromPool(p.pool)
	defer db.Close() // of the adapter; the pool stays
	g, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files, goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("database migrations: %w", err)
	}
	if _, err := g.Up(ctx); err != nil {
		return fmt.Errorf("database migrations: %w", err)
	}
	p.migrated.Store(true)
	return nil
}

// failed says what was tried. If the schema is gone, the next call brings it back.
func (p *Postgres) failed(what string, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42P01" { // undefined_table
		p.migrated.Store(false)
	}
	return fmt.Errorf("history: %s: %w", what, err)
}

// Write keeps a sample in one transaction.
func (p *Postgres) Write(ctx context.Context, s Sample) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	s = s.clean()
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `insert into crawl (source, started, duration_ms, outcome, error)
			values ($1, $2, $3, $4, $5) on conflict do nothing`,
			s.Source, s.Crawl.Started, swarm.Millis(s.Crawl.Duration), s.Crawl.Outcome(), s.Crawl.Error)
		if err != nil || tag.RowsAffected() == 0 { // none: the sample is there already
			return err
		}
		var rows pgx.Batch
		for i := range s.Coverage {
			queueCoverage(&rows, &s.Coverage[i])
		}
		for i := range s.Observations {
			queueObservation(&rows, &s.Observations[i])
		}
		if len(s.Events) > 0 {
			rows.Queue(`select pg_advisory_xact_lock($1)`, int64(eventLock))
			for i := range s.Events {
				queueEvent(&rows, &s.Events[i])
			}
			rows.Queue(`select pg_notify($1, $2)`, channel, string(s.Source))
		}
		return tx.SendBatch(ctx, &rows).Close()
	})
	if err != nil {
		return p.failed("write a sample", err)
	}
	return nil
}

func queueCoverage(rows *pgx.Batch, c *Coverage) {
	rows.Queue(`insert into coverage (model, model_name, at, counts, missing, missing_blocks, min_redundancy, servers, bottleneck, session_tps, cache_left)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		c.Model, c.ModelName, c.At, packCounts(c.Counts), swarm.FormatSpans(c.Missing), swarm.Total(c.Missing), c.MinRedundancy, c.Servers,
		c.Bottleneck, c.SessionTPS, c.CacheLeft)
}

// queueObservation adds the row, and makes it the server's last unless a later one is.
func queueObservation(rows *pgx.Batch, o *Observation) {
	args := []any{o.At, o.Model, o.ModelName, o.Peer, o.Span.Start, o.Span.End, o.State.String(), o.Rates.InferenceRPS, o.Rates.ForwardRPS,
		o.Rates.NetworkRPS, o.Throughput, o.CacheTotal, o.CacheLeft, o.Version, o.PublicName, o.Relay}
	rows.Queue(`insert into observation (at, model, model_name, peer, span_start, span_end, state, inference_rps, forward_rps, network_rps,
			throughput, cache_total, cache_left, version, public_name, relay)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`, args...)
	rows.Queue(`insert into server as s (first_seen, last_seen, model, model_name, peer, span_start, span_end, state, inference_rps, forward_rps, network_rps,
			throughput, cache_total, cache_left, version, public_name, relay)
		values ($1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
		on conflict (model, peer) do update set (last_seen, model_name, span_start, span_end, state, inference_rps, forward_rps, network_rps,
			throughput, cache_total, cache_left, version, public_name, relay)
		= ($1, $3, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) where s.last_seen <= $1`, args...)
}

// queueEvent adds the event unless it repeats the last of its subject (Event.repeats).
func queueEvent(rows *pgx.Batch, e *Event) {
	rows.Queue(`insert into event (at, kind, model, model_name, peer, public_name, span_start, span_end, detail)
		select $1::timestamptz, $2::text, $3::text, $4::text, $5::text, $6::text, $7::int, $8::int, $9::text
		where not exists (
			select 1 from (select * from event where model = $3 and peer = $5 order by id desc limit 1) last
			where last.at >= $1 or (last.kind, last.span_start, last.span_end, last.detail) = ($2, $7, $8, $9))`,
		e.At, string(e.Kind), e.Model, e.ModelName, e.Peer, e.PublicName, e.Span.Start, e.Span.End, e.Detail)
}

// Prune deletes rows that are too old or too many.
func (p *Postgres) Prune(ctx context.Context, now time.Time) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	cut := now.Add(-p.limits.Age)
	for _, t := range []struct {
		name, at string
		limit    int
	}{
		{"crawl", "started", p.limits.Crawls}, {"coverage", "at", p.limits.Coverage}, {"observation", "at", p.limits.Observations}, {"event", "at", p.limits.Events},
	} {
		if _, err := p.pool.Exec(ctx, `delete from `+t.name+` where `+t.at+` < $1
			or id <= (select id from `+t.name+` order by id desc offset $2 limit 1)`, cut, t.limit); err != nil {
			return p.failed("prune "+t.name, err)
		}
	}
	if _, err := p.pool.Exec(ctx, `delete from server where last_seen < $1
		or (model, peer) in (select model, peer from server order by last_seen desc, model, peer offset $2)`, cut, p.limits.Servers); err != nil {
		return p.failed("prune server", err)
	}
	return nil
}

// Watch calls notify each time some gateway, this one included, added events; source is
// that gateway. It holds a connection of its own, returns with an error when that is lost,
// and with nil when ctx ends.
func (p *Postgres) Watch(ctx context.Context, notify func(source swarm.PeerID)) error {
	conn, err := pgx.ConnectConfig(ctx, p.pool.Config().ConnConfig)
	if err != nil {
		return quiet(ctx, p.failed("watch", err))
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "listen "+channel); err != nil {
		return quiet(ctx, p.failed("watch", err))
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return quiet(ctx, p.failed("watch", err))
		}
		notify(swarm.PeerID(n.Payload))
	}
}

// quiet drops the error of a call that was told to end.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
