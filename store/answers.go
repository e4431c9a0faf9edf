package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"whorl/internal/answers"
)

// Answers is a shelf in the database, for all gateways that share it.
func (p *Postgres) Answers(l answers.Limits) answers.Shelf {
	s := &shelf{Postgres: p, limits: l}
	s.since.Store(l.Bytes) // others may have put what they liked before
	return s
}

type shelf struct {
	*Postgres
	limits answers.Limits
	since  atomic.Int64 // bytes put since there was last looked whether all are too many
}

// slack is the part of the limits by which answers may exceed them, for each gateway, until the oldest go: to
// look at all of them each time would cost more than they are worth.
const slack = 64

func (s *shelf) failed(what string, err error) error {
	if err == nil || errors.Is(err, answers.ErrNone) {
		return err
	}
	s.Postgres.failed(what, err)
	return fmt.Errorf("database: %s an answer: %w", what, err)
}

// oldest are the ids of answers beyond $1 bytes and $2 in number, of those that where selects.
func oldest(where string) string {
	return `delete from answer where id in (select id from (
			select id, sum(size) over newest as bytes, row_number() over newest as n from answer ` + where + ` window newest as (order by created desc, id desc)
		) ranked where bytes > $1 or n > $2)`
}

// Put is of answers.Shelf.
func (s *shelf) Put(ctx context.Context, a answers.Answer) (bool, error) {
	if !s.limits.Fits(&a) {
		return false, nil
	}
	if err := s.prepare(ctx); err != nil {
		return false, err
	}
	share := int64(s.limits.Share)
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var rows pgx.Batch
		rows.Queue(`insert into answer (id, owner, payer, created, size, body) values ($1, $2, $3, $4, $5, $6)`, a.ID, a.Owner, a.User, a.Created, a.Size(), a.Body)
		rows.Queue(oldest(`where payer = $3`), s.limits.Bytes/share, int64(s.limits.Count)/share, a.User)
		return tx.SendBatch(ctx, &rows).Close()
	})
	if err != nil {
		return false, s.failed("keep", err)
	}
	if s.since.Add(max(a.Size(), s.limits.Bytes/int64(s.limits.Count))) >= s.limits.Bytes/slack {
		if err := s.Prune(ctx, a.Created); err != nil {
			s.since.Store(s.limits.Bytes) // this one is kept; the next one tries again
		}
	}
	return true, nil
}

// Get is of answers.Shelf.
func (s *shelf) Get(ctx context.Context, owner, id string, now time.Time) (body []byte, err error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	err = s.pool.QueryRow(ctx, `select body from answer where id = $1 and owner = $2 and created >= $3`, id, owner, now.Add(-s.limits.Age)).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		err = answers.ErrNone
	}
	return body, s.failed("read", err)
}

// Drop is of answers.Shelf.
func (s *shelf) Drop(ctx context.Context, owner, id string) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	done, err := s.pool.Exec(ctx, `delete from answer where id = $1 and owner = $2`, id, owner)
	if err == nil && done.RowsAffected() == 0 {
		err = answers.ErrNone
	}
	return s.failed("forget", err)
}

// Prune is of answers.Shelf.
func (s *shelf) Prune(ctx context.Context, now time.Time) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	var rows pgx.Batch
	rows.Queue(`delete from answer where created < $1`, now.Add(-s.limits.Age))
	rows.Queue(oldest(``), s.limits.Bytes, s.limits.Count)
	s.since.Store(0)
	return s.failed("prune", s.pool.SendBatch(ctx, &rows).Close())
}
