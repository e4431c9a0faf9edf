package kvcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/tensor"
)

const page = tensor.PageTokens

func newCache(t *testing.T, change func(*Config)) *Cache {
	t.Helper()
	cfg := Config{Pages: 10, PageBytes: 1000, MaxTokens: 8 * page, PeerTokens: 9 * page, MaxWaiting: 4, MaxWait: time.Hour}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ask(peer string, tokens int, wait time.Duration) Request {
	return Request{Peer: peer, Tokens: tokens, Wait: wait, Lease: 10 * time.Second}
}

func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, nil)
		l, err := c.Reserve(t.Context(), ask("a", 2*page+1, 0))
		if err != nil {
			t.Fatal(err)
		}
		want := Stats{TotalTokens: 10 * page, UsedTokens: 3 * page, LeftTokens: 7 * page, TotalBytes: 10_000, UsedBytes: 3000}
		if got := c.Stats(); got != want || len(l.View().Pages) != 3 || l.Bytes() != 3000 {
			t.Errorf("%+v, %d pages", got, len(l.View().Pages))
		}
		if err := l.Commit(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // a committed lease does not expire
		if got := c.Stats().UsedTokens; got != 3*page {
			t.Errorf("%d tokens", got)
		}
		l.Release()
		l.Release()
		if got := c.Stats(); got.UsedTokens != 0 || got.LeftTokens != 10*page {
			t.Errorf("%+v after two releases", got)
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		held   int // pages of peer a
		change func(*Config)
		ask    Request
		reason error
		text   string
		after  time.Duration
	}{
		{name: "longer than allowed", ask: ask("b", 8*page+1, time.Hour), reason: ErrTooLong,
			text: "cannot reserve cache for 513 tokens: the session is longer than this server allows (at most 512 tokens)"},
		{name: "nothing", ask: ask("b", 0, time.Hour), reason: ErrTooLong},
		{name: "more than there is", change: func(c *Config) { c.MaxTokens, c.PeerTokens = 0, 0 }, ask: ask("b", 10*page+1, time.Hour), reason: ErrNever,
			text: "cannot reserve cache for 641 tokens: the session can never fit (at most 640 tokens)"},
		{name: "more than a peer may have", change: func(c *Config) { c.PeerTokens = 4 * page }, ask: ask("b", 5*page, time.Hour), reason: ErrShare,
			text: "cannot reserve cache for 320 tokens: the peer's share of the cache is used up (at most 256 tokens)"},
		{name: "full, no wait", held: 8, ask: ask("b", 3*page, 0), reason: ErrFull,
			text: "cannot reserve cache for 192 tokens: the cache is full (128 tokens free) after waiting 0.0 s"},
		{name: "full, waited", held: 8, ask: ask("b", 3*page, 5*time.Second), reason: ErrFull, after: 5 * time.Second,
			text: "cannot reserve cache for 192 tokens: the cache is full (128 tokens free) after waiting 5.0 s"},
		{name: "waits are bounded", held: 8, change: func(c *Config) { c.MaxWait = time.Second }, ask: ask("b", 3*page, time.Hour), reason: ErrFull, after: time.Second},
		{name: "the queue is full", held: 8, change: func(c *Config) { c.MaxWaiting = 0 }, ask: ask("b", 3*page, time.Hour), reason: ErrQueue},
		{name: "own share in use", held: 8, ask: ask("a", 2*page, time.Second), reason: ErrShare, after: time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache := newCache(t, c.change)
				if c.held > 0 {
					l, err := cache.Reserve(t.Context(), ask("a", c.held*page, 0))
					if err != nil {
						t.Fatal(err)
					}
					l.Commit()
					defer l.Release()
				}
				before, start := cache.Stats(), time.Now()
				_, err := cache.Reserve(t.Context(), c.ask)
				var r *Refusal
				if !errors.Is(err, c.reason) || !errors.As(err, &r) || c.text != "" && err.Error() != c.text {
					t.Errorf("got %v, want %v", err, c.reason)
				}
				if took := time.Since(start); took != c.after {
					t.Errorf("after %v, want %v", took, c.after)
				}
				if after := cache.Stats(); after != before {
					t.Errorf("%+v, before %+v", after, before)
				}
			})
		})
	}
}

// Waiters are served in order: a large one is not overtaken by small ones that would fit,
// a peer at its cap does not hold up the others.
func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, func(c *Config) { c.PeerTokens = 6 * page })
		var mu sync.Mutex
		var order []string
		var leases []*Lease
		take := func(name, peer string, pages int) {
			go func() {
				l, err := c.Reserve(t.Context(), ask(peer, pages*page, time.Minute))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					name = err.Error()
				} else {
					l.Commit()
					leases = append(leases, l)
				}
				order = append(order, name)
			}()
			synctest.Wait()
		}
		take("first", "a", 6)
		take("capped", "a", 1) // waits for its own peer only
		take("large", "b", 5)
		take("small", "c", 1) // would fit, stands behind
		if !slices.Equal(order, []string{"first"}) || c.Stats().Waiting != 3 {
			t.Errorf("served %v, %d wait", order, c.Stats().Waiting)
		}
		leases[0].Release()
		synctest.Wait()
		slices.Sort(order)
		if !slices.Equal(order, []string{"capped", "first", "large", "small"}) {
			t.Errorf("served %v", order)
		}
		for _, l := range leases[1:] {
			l.Release()
		}
		if s := c.Stats(); s.UsedTokens != 0 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Who stands behind a large request moves up when that gives up.
func TestGivingUpLetsOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, nil)
		held, _ := c.Reserve(t.Context(), ask("a", 8*page, 0))
		held.Commit()
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the client is gone")
		errs := make(chan error, 1)
		go func() {
			_, err := c.Reserve(ctx, ask("b", 5*page, time.Hour))
			errs <- err
		}()
		synctest.Wait()
		small := make(chan *Lease, 1)
		go func() {
			l, _ := c.Reserve(t.Context(), ask("c", page, time.Hour))
			small <- l
		}()
		synctest.Wait()
		cancel(gone)
		if err := <-errs; err != gone {
			t.Error(err)
		}
		(<-small).Release()
		held.Release()
	})
}

func TestLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, nil)
		r := ask("a", page, 0)
		expired := 0
		r.Expired = func() { expired++ }
		l, err := c.Reserve(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second + 1)
		synctest.Wait()
		if s := c.Stats(); s.UsedTokens != 0 || expired != 1 {
			t.Errorf("%+v, told %d times", s, expired)
		}
		if err := l.Commit(); !errors.Is(err, ErrExpired) {
			t.Errorf("commit after the end: %v", err)
		}
		l.Release()
		if s := c.Stats(); s.LeftTokens != 10*page {
			t.Errorf("%+v", s)
		}
	})
}

// A25: a thousand sessions that open, wait, give up, expire and close leave the counters
// where they began, no page twice, and nobody waiting.
func TestThousandMixedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, func(c *Config) { c.MaxWaiting = 50 })
		before := c.Stats()
		var mu sync.Mutex
		owner := map[int32]int{}
		var all sync.WaitGroup
		outcome := map[string]int{}
		count := func(s string) { mu.Lock(); outcome[s]++; mu.Unlock() }
		for i := range 1000 {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			all.Go(func() {
				time.Sleep(time.Duration(r.IntN(600_000)) * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+r.IntN(20_000))*time.Millisecond)
				defer cancel()
				l, err := c.Reserve(ctx, Request{
					Peer: fmt.Sprint(r.IntN(5)), Tokens: 1 + r.IntN([]int{2 * page, 9 * page}[i%2]), Wait: time.Duration(r.IntN(3)*r.IntN(8000)) * time.Millisecond, Lease: 3 * time.Second,
				})
				if err != nil {
					text, _, _ := strings.Cut(err.Error(), ":")
					count(text[:10])
					return
				}
				time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
				if err := l.Commit(); err != nil {
					count("expired")
					l.Release()
					return
				}
				mu.Lock()
				for _, p := range l.View().Pages {
					if owner[p]++; owner[p] > 1 {
						t.Errorf("page %d has two owners", p)
					}
				}
				mu.Unlock()
				time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
				mu.Lock()
				for _, p := range l.View().Pages {
					owner[p]--
				}
				mu.Unlock()
				l.Release()
				count("served")
			})
		}
		all.Wait()
		if after := c.Stats(); after != before {
			t.Errorf("%+v, began with %+v", after, before)
		}
		if len(c.held) != 0 || c.waiting.Len() != 0 {
			t.Errorf("held %v, %d wait", c.held, c.waiting.Len())
		}
		for _, s := range []string{"served", "expired", "cannot res", "context de"} {
			if outcome[s] < 20 {
				t.Errorf("outcomes %v: too few %q to prove anything", outcome, s)
			}
		}
	})
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{}, {Pages: -1}, {Pages: 1, PageBytes: -1}, {Pages: 1, MaxWait: -1}, {Pages: 1, PeerTokens: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
