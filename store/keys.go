package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"whorl/internal/keys"
)

// Keys is a book of keys in the database, for all gateways that share it.
func (p *Postgres) Keys() keys.Book { return keyBook{p} }

type keyBook struct{ *Postgres }

// failed says what was tried, and has a lost schema brought back.
func (b keyBook) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	b.Postgres.failed(what, err)
	return fmt.Errorf("database: %s keys: %w", what, err)
}

// keyLock serialises those who add keys, so that they see how many there are.
const keyLock = eventLock + 1

// uniqueViolation is Postgres' code for a value that must not be there twice.
const uniqueViolation = "23505"

// List is in the order of names.
func (b keyBook) List(ctx context.Context) ([]keys.Key, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	rows, err := b.pool.Query(ctx, `select id, name, scopes, sha256, requests_per_minute, tokens_per_minute, answers, created, expires, used from keys order by name collate "C" limit $1`, keys.MaxKeys)
	if err != nil {
		return nil, b.failed("list", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (keys.Key, error) {
		var k keys.Key
		var scopes []string
		var expires, used *time.Time
		err := row.Scan(&k.ID, &k.Name, &scopes, &k.Hash, &k.Requests, &k.Tokens, &k.Answers, &k.Created, &expires, &used)
		k.Scopes = keys.Convert[keys.Scope](scopes)
		k.Created, k.Expires, k.Used = k.Created.UTC(), timeOf(expires), timeOf(used)
		return k, err
	})
	if err != nil {
		return nil, b.failed("list", err)
	}
	for i := range all {
		if err := all[i].Validate(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Version is counted by the database itself, whoever changes keys.
func (b keyBook) Version(ctx context.Context) (string, error) {
	if err := b.prepare(ctx); err != nil {
		return "", err
	}
	var n int64
	if err := b.pool.QueryRow(ctx, `select version from keys_version`).Scan(&n); err != nil {
		return "", b.failed("look at", err)
	}
	return strconv.FormatInt(n, 10), nil
}

// timeOf is a time that may be missing.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func pointerTo(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Add refuses a name that is taken.
func (b keyBook) Add(ctx context.Context, k keys.Key) error {
	if err := k.Validate(); err != nil {
		return err
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(keyLock)); err != nil {
			return err
		}
		done, err := tx.Exec(ctx, `insert into keys (id, name, scopes, sha256, requests_per_minute, tokens_per_minute, answers, created, expires)
			select $1, $2, $3, $4, $5, $6, $7, $8, $9 where (select count(*) from keys) < $10`,
			k.ID, k.Name, keys.Convert[string](k.Scopes), k.Hash, k.Requests, k.Tokens, k.Answers, k.Created, pointerTo(k.Expires), keys.MaxKeys)
		if err == nil && done.RowsAffected() == 0 {
			return keys.ErrMany
		}
		return err
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == uniqueViolation {
		return keys.ErrTaken
	}
	if errors.Is(err, keys.ErrMany) {
		return err
	}
	return b.failed("add", err)
}

// Remove takes an id or a name.
func (b keyBook) Remove(ctx context.Context, which string) (bool, error) {
	if err := b.prepare(ctx); err != nil {
		return false, err
	}
	done, err := b.pool.Exec(ctx, `delete from keys where id = $1 or name = $1`, which)
	return done.RowsAffected() > 0, b.failed("remove", err)
}

// Touch notes when keys were used last.
func (b keyBook) Touch(ctx context.Context, used map[string]time.Time) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	var ids []string
	var at []time.Time
	for id, t := range used {
		ids, at = append(ids, id), append(at, t)
	}
	_, err := b.pool.Exec(ctx, `update keys set used = greatest(keys.used, u.at) from unnest($1::text[], $2::timestamptz[]) as u(id, at) where keys.id = u.id`, ids, at)
	return b.failed("touch", err)
}
