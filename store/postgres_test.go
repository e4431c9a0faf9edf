package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"whorl/internal/answers"
	"whorl/internal/answers/answerstest"
	"whorl/internal/keys"
	"whorl/internal/keys/keystest"
	"whorl/internal/pgtest"
	"whorl/swarm"
)

func open(t *testing.T, url string, l Limits) *Postgres {
	t.Helper()
	p, err := OpenPostgres(url, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestPostgres(t *testing.T) {
	pg := pgtest.Start(t)
	testSuite(t, func(t *testing.T, l Limits) Store { return open(t, pg.Database(t), l) })
	t.Run("keys", func(t *testing.T) {
		url := pg.Database(t)
		keystest.Book(t, func() keys.Book { return open(t, url, DefaultLimits()).Keys() })
		testKeysVersion(t, open(t, url, DefaultLimits()))
	})
	t.Run("answers", func(t *testing.T) {
		answerstest.Shelf(t, func(t *testing.T, l answers.Limits) answers.Shelf {
			return open(t, pg.Database(t), DefaultLimits()).Answers(l)
		})
		t.Run("of several gateways", func(t *testing.T) { testAnswersOfSeveral(t, pg.Database(t)) })
	})
	t.Run("gateways that start together share one schema", func(t *testing.T) { testStartTogether(t, pg.Database(t)) })
	t.Run("the schema comes back if it is lost", func(t *testing.T) { testSchemaLost(t, pg.Database(t)) })
	t.Run("gateways hear of each other's events", func(t *testing.T) { testWatch(t, pg.Database(t)) })
	if !pg.Ours() {
		t.Log("not proven: an outage of the database, since the server given is not ours to stop")
		return
	}
	t.Run("history goes on after an outage, with a gap and without repeats", func(t *testing.T) { testOutage(t, pg) }) // stops the server: last
}

func TestOpenPostgres(t *testing.T) {
	if _, err := OpenPostgres("postgres://ann:sesame@[bad", DefaultLimits()); err == nil || strings.Contains(err.Error(), "sesame") {
		t.Errorf("error %v: want one, without the password", err)
	}
	p := open(t, "postgres://whorl@127.0.0.1:1/none", DefaultLimits()) // nobody listens there
	if err := p.Ready(t.Context()); err == nil {
		t.Error("a database that is not there is ready")
	}
	if err := p.Write(t.Context(), fullSample()); err == nil {
		t.Error("a write to a database that is not there succeeded")
	}
}

// testAnswersOfSeveral: what one gateway kept another gives, also after the first has ended; and together they keep no more
// than one may, but for the slack.
func testAnswersOfSeveral(t *testing.T, url string) {
	limits := answers.Limits{Age: time.Hour, Count: 64, Bytes: 64 * 1024, Share: 1}
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	one, other := open(t, url, DefaultLimits()), open(t, url, DefaultLimits()).Answers(limits)
	first, id := one.Answers(limits), func(i int) string { return fmt.Sprint("resp_", i) }
	for i := range 200 {
		shelf := []answers.Shelf{first, other}[i%2]
		if _, err := shelf.Put(t.Context(), answers.Answer{ID: id(i), Owner: "key_a", User: fmt.Sprint(i), Body: make([]byte, 300), Created: now.Add(time.Duration(i) * time.Millisecond)}); err != nil {
			t.Fatal(err)
		}
	}
	var kept int64
	if err := one.pool.QueryRow(t.Context(), `select count(*) from answer`).Scan(&kept); err != nil || kept > 64+2*2 {
		t.Errorf("%d answers of at most 64 are kept, %v", kept, err)
	}
	one.Close()
	if _, err := other.Get(t.Context(), "key_a", id(198), now); err != nil {
		t.Error(err)
	}
	if _, err := first.Put(t.Context(), answers.Answer{ID: "resp_late", Created: now}); err == nil || errors.Is(err, answers.ErrNone) {
		t.Errorf("a database that is closed keeps an answer: %v", err)
	}
	if _, err := first.Get(t.Context(), "key_a", id(198), now); err == nil || errors.Is(err, answers.ErrNone) {
		t.Errorf("a database that is closed says that there is none: %v", err)
	}
}

func testStartTogether(t *testing.T, url string) {
	var all sync.WaitGroup
	for range 4 {
		p := open(t, url, DefaultLimits())
		all.Go(func() {
			if err := p.Ready(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func testSchemaLost(t *testing.T, url string) {
	p := open(t, url, DefaultLimits())
	mustWrite(t, p, fullSample())
	if _, err := p.pool.Exec(t.Context(), `drop table answer, keys, event, server, observation, coverage, crawl, goose_db_version`); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), fullSample()); err == nil {
		t.Fatal("a write without a schema succeeded")
	}
	mustWrite(t, p, fullSample())
}

func testWatch(t *testing.T, url string) {
	a, b := open(t, url, DefaultLimits()), open(t, url, DefaultLimits())
	if err := a.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	heard := make(chan swarm.PeerID, 64)
	ended := make(chan error, 1)
	go func() { ended <- a.Watch(ctx, func(source swarm.PeerID) { heard <- source }) }()
	// Whether a listens yet cannot be seen from here, so b goes on until it is heard.
	for i := 0; ; i++ {
		s := sampleAt("gate-b", i)
		s.Events = []Event{{At: at(i), Kind: ServerOnline, Model: "m", Peer: "p", Span: swarm.Span{Start: i, End: i + 1}}}
		mustWrite(t, b, s)
		select {
		case source := <-heard:
			if source != "gate-b" {
				t.Errorf("heard of %q, want gate-b", source)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("a watch that was told to end failed: %v", err)
			}
			return
		case err := <-ended:
			t.Fatalf("the watch ended: %v", err)
		default:
		}
	}
}

// The database part of case 040.
func testOutage(t *testing.T, pg *pgtest.Server) {
	p := open(t, pg.Database(t), DefaultLimits())
	event := func(second int, kind Kind) Sample {
		s := sampleAt("gate", second)
		s.Events = []Event{{At: at(second), Kind: kind, Model: "m", Peer: "p"}}
		return s
	}
	mustWrite(t, p, event(0, ServerOnline))
	ended := make(chan error, 1)
	go func() { ended <- p.Watch(t.Context(), func(swarm.PeerID) {}) }()

	pg.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := p.Write(ctx, event(5, ServerOffline)); err == nil {
		t.Fatal("a write without a database succeeded")
	}
	if _, err := p.Events(ctx, EventQuery{}); err == nil {
		t.Fatal("a read without a database succeeded")
	}
	if err := <-ended; err == nil {
		t.Error("a watch that lost its connection ended without an error")
	}

	if err := pg.Restart(); err != nil {
		t.Fatal(err)
	}
	// Connections of the pool that died are found out one by one, each by a call.
	var err error
	for range poolSize + 1 {
		if err = p.Write(t.Context(), event(20, ServerOffline)); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("the history does not come back: %v", err)
	}
	mustWrite(t, p, event(20, ServerOffline), event(25, ServerOnline))
	if n := len(must[[]Crawl](t)(p.Crawls(t.Context(), always))); n != 3 {
		t.Errorf("%d crawls, want those of seconds 0, 20 and 25", n)
	}
	if n := len(must[[]Event](t)(p.Events(t.Context(), EventQuery{}))); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
}

// The database counts changes of keys, whoever makes them; that a key was used is none.
func testKeysVersion(t *testing.T, p *Postgres) {
	for i, c := range []struct {
		change string
		counts bool
	}{
		{`update keys set used = now()`, false}, {`update keys set answers = answers + 1`, true},
		{`delete from keys where name = '0-0'`, true}, {`truncate keys`, true},
	} {
		before, err := p.Keys().Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.pool.Exec(t.Context(), c.change); err != nil {
			t.Fatal(err)
		}
		after, err := p.Keys().Version(t.Context())
		if err != nil || (after != before) != c.counts {
			t.Errorf("%d: %s: version %s after %s, %v", i, c.change, after, before, err)
		}
	}
}
