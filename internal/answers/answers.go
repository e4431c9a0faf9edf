// Package answers keeps answers that their callers may ask for again and go on from: the shelf in
// memory, what any shelf promises, and its limits. Package store has one in a database.
//
// It knows nothing of what an answer holds: a dialect of api writes and reads that.
package answers

import (
	"context"
	"errors"
	"time"
)

// Answer is one that is kept.
type Answer struct {
	ID string
	// Owner may read it and nobody else: the id of a key, or "" for all who showed none, to whom the
	// id is what a secret is.
	Owner string
	// User is whose share of the room it takes: a key or an address.
	User string
	Body []byte
	// Created is when, to the microsecond.
	Created time.Time
}

// ErrNone says that no such answer is kept, or not for this owner.
var ErrNone = errors.New("no such answer is kept")

// Shelf keeps answers. Safe for concurrent use.
type Shelf interface {
	// Put keeps an answer of a new id, and forgets the oldest where there is no more room: those of
	// its user where they take more than their share. kept is false if it takes more than a share by
	// itself, or nothing is kept here.
	Put(ctx context.Context, a Answer) (kept bool, err error)
	// Get is the body of an owner's answer that is not too old; ErrNone if there is none. Nobody
	// changes it.
	Get(ctx context.Context, owner, id string, now time.Time) ([]byte, error)
	// Drop forgets an owner's answer; ErrNone if there is none.
	Drop(ctx context.Context, owner, id string) error
	// Prune forgets what is too old, and what there is too much of.
	Prune(ctx context.Context, now time.Time) error
}

// Limits bound what a shelf keeps.
type Limits struct {
	Age   time.Duration // older ones are not given out
	Count int           // of answers
	Bytes int64         // of their bodies, and Overhead for each
	// Share is the part of both that one user may take: 4 is a quarter.
	Share int
}

// Overhead is about what an answer takes beside its body, in bytes.
const Overhead = 512

// Size is what an answer counts, in bytes.
func (a *Answer) Size() int64 { return int64(len(a.Body)) + Overhead }

// Fits tells whether an answer is not too large to be kept.
func (l Limits) Fits(a *Answer) bool { return a.Size() <= l.Bytes/int64(l.Share) }

// month is how long OpenAI keeps responses, which clients may count on.
const month = 30 * 24 * time.Hour

// MemoryLimits are those of a shelf in memory: a small part of a gateway's.
func MemoryLimits() Limits { return Limits{Age: month, Count: 20_000, Bytes: 64 << 20, Share: 4} }

// DatabaseLimits are those of a database: about what the history takes there.
func DatabaseLimits() Limits { return Limits{Age: month, Count: 100_000, Bytes: 1 << 30, Share: 4} }

// None keeps nothing.
type None struct{}

// Put keeps nothing.
func (None) Put(context.Context, Answer) (bool, error) { return false, nil }

// Get finds nothing.
func (None) Get(context.Context, string, string, time.Time) ([]byte, error) { return nil, ErrNone }

// Drop finds nothing.
func (None) Drop(context.Context, string, string) error { return ErrNone }

// Prune has nothing to forget.
func (None) Prune(context.Context, time.Time) error { return nil }
