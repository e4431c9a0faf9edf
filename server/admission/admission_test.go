package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/tensor"
)

const page = tensor.PageTokens

// desk is a controller with a clock, and what its decisions came to.
type desk struct {
	t     *testing.T
	c     *Controller
	now   time.Time
	next  ID
	names map[ID]string
	doing map[ID]Activity
	log   []string // since last asked
}

func newDesk(t *testing.T, change func(*Config)) *desk {
	t.Helper()
	cfg := Config{
		Pages: 10, MaxTokens: 8 * page, Sessions: 20, Wait: time.Hour,
		Patience: 3 * time.Second, Lease: 10 * time.Second, Service: 2 * time.Second, Rest: time.Minute,
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &desk{t: t, c: c, now: time.Unix(1e9, 0), names: map[ID]string{}, doing: map[ID]Activity{}}
}

func (d *desk) activity(id ID) Activity { return d.doing[id] }

// peer reads "PEER" or "PEER@PREFIX".
func peer(s string) (name, prefix string) {
	name, prefix, _ = strings.Cut(s, "@")
	return name, prefix
}

// ask claims pages and carries out what is decided.
func (d *desk) ask(name, who string, pages int, wait time.Duration) ID {
	p, prefix := peer(who)
	return d.claim(name, Claim{Peer: p, Prefix: prefix, Tokens: pages * page, Wait: wait})
}

func (d *desk) claim(name string, claim Claim) ID {
	d.next++
	id := d.next
	d.names[id] = name
	park, err := d.c.Ask(d.now, id, claim, d.activity)
	if err != nil {
		d.log = append(d.log, fmt.Sprintf("%s: %v", name, err))
		return 0
	}
	d.park(park)
	d.settle()
	return id
}

func (d *desk) park(ids []ID) {
	for _, id := range ids {
		d.log = append(d.log, "park "+d.names[id])
		d.c.Leave(id)
	}
}

func (d *desk) settle() {
	for {
		switch n := d.c.Next(d.now, d.activity); {
		case n.Grant != 0:
			d.log = append(d.log, "grant "+d.names[n.Grant])
		case n.Park != nil:
			d.park(n.Park)
		case n.Refuse != 0:
			d.log = append(d.log, fmt.Sprintf("%s: %v", d.names[n.Refuse], n.Why))
			d.c.Leave(n.Refuse)
		default:
			return
		}
	}
}

// after lets time pass in small steps.
func (d *desk) after(t time.Duration) {
	for end := d.now.Add(t); d.now.Before(end); {
		d.now = d.now.Add(250 * time.Millisecond)
		d.settle()
	}
}

// rows computes some for a session.
func (d *desk) rows(replay time.Duration, list ...ID) {
	for _, id := range list {
		d.c.Computed(d.now, id, replay, true)
	}
}

// want compares what was decided since it was last called.
func (d *desk) want(lines ...string) {
	d.t.Helper()
	if !slices.Equal(d.log, lines) {
		d.t.Errorf("decided\n\t%s\nwant\n\t%s", strings.Join(d.log, "\n\t"), strings.Join(lines, "\n\t"))
	}
	d.log = nil
}

func (d *desk) leave(id ID) {
	d.c.Leave(id)
	d.settle()
}

func TestRefusals(t *testing.T) {
	tight := func(c *Config) { c.Service, c.Lease = time.Hour, time.Hour } // nobody is parked
	for _, c := range []struct {
		name   string
		held   int // pages of peer a
		change func(*Config)
		who    string
		tokens int
		wait   time.Duration
		want   string
		after  time.Duration
	}{
		{name: "longer than allowed", who: "b", tokens: 8*page + 1, wait: time.Hour,
			want: "cannot reserve cache for 513 tokens: the session is longer than this server allows (at most 512 tokens)"},
		{name: "nothing", who: "b", wait: time.Hour, want: "cannot reserve cache for 0 tokens: the session is longer than this server allows (at most 512 tokens)"},
		{name: "more than there is", change: func(c *Config) { c.MaxTokens = 0 }, who: "b", tokens: 10*page + 1, wait: time.Hour,
			want: "cannot reserve cache for 641 tokens: the session can never fit (at most 640 tokens)"},
		{name: "more than a peer may have", change: func(c *Config) { c.Peer.Pages = 4 }, who: "b", tokens: 5 * page, wait: time.Hour,
			want: "cannot reserve cache for 320 tokens: the peer's share of the cache is used up (at most 256 tokens)"},
		{name: "more than a prefix may have", change: func(c *Config) { c.Prefix.Pages = 4 }, who: "b@net", tokens: 5 * page, wait: time.Hour,
			want: "cannot reserve cache for 320 tokens: the share of the cache of the peer's address prefix is used up (at most 256 tokens)"},
		{name: "full, no wait", held: 8, who: "b", tokens: 6 * page,
			want: "cannot reserve cache for 384 tokens: the cache is full (128 tokens free) after waiting 0.0 s"},
		{name: "full, waited", held: 8, who: "b", tokens: 3 * page, wait: 5 * time.Second, after: 5 * time.Second,
			want: "cannot reserve cache for 192 tokens: the cache is full (128 tokens free) after waiting 5.0 s"},
		{name: "less than its share: some patience", held: 8, who: "b", tokens: 3 * page, after: 3 * time.Second,
			want: "cannot reserve cache for 192 tokens: the cache is full (128 tokens free) after waiting 3.0 s"},
		{name: "waits are bounded", held: 8, change: func(c *Config) { c.Wait = 4 * time.Second }, who: "b", tokens: 3 * page, wait: time.Hour, after: 4 * time.Second,
			want: "cannot reserve cache for 192 tokens: the cache is full (128 tokens free) after waiting 4.0 s"},
		{name: "own share in use", held: 8, change: func(c *Config) { c.Peer.Pages = 9 }, who: "a", tokens: 2 * page, wait: time.Second, after: time.Second,
			want: "cannot reserve cache for 128 tokens: the peer's share of the cache is used up (at most 576 tokens)"},
		{name: "sessions of a peer", held: 1, change: func(c *Config) { c.Peer.Sessions = 1 }, who: "a", tokens: 1,
			want: "it has 1 sessions of this peer, the most it takes"},
		{name: "sessions of all", held: 1, change: func(c *Config) { c.Sessions = 1 }, who: "b", tokens: 1,
			want: "it has 1 sessions, the most it takes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, func(cfg *Config) {
				tight(cfg)
				if c.change != nil {
					c.change(cfg)
				}
			})
			if c.held > 0 {
				d.ask("held", "a", c.held, 0)
			}
			d.log = nil
			start := d.now
			p, prefix := peer(c.who)
			d.claim("late", Claim{Peer: p, Prefix: prefix, Tokens: c.tokens, Wait: c.wait})
			for d.log == nil && d.now.Sub(start) < time.Minute {
				d.after(250 * time.Millisecond)
			}
			d.want("late: " + c.want)
			if took := d.now.Sub(start); took != c.after {
				t.Errorf("after %v, want %v", took, c.after)
			}
		})
	}
}

// What waits holds nothing for long: a large session is not overtaken by others that ask
// for more than their share, but for no longer than a lease, and never holds up those who
// ask for less.
func TestLine(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Service, c.Rest = time.Hour, time.Hour })
	first := d.ask("first", "a", 6, 0)
	d.rows(0, first)
	d.ask("large", "b", 5, time.Minute)
	d.ask("more of a", "a", 1, time.Minute) // would fit, stands behind
	d.ask("small", "c", 1, time.Minute)     // within its share
	d.want("grant first", "grant small")
	d.after(9 * time.Second)
	d.want()
	d.after(time.Second)
	d.want("grant more of a")
	d.leave(first)
	d.want("grant large")
}

func TestGivingUpLetsOthersPass(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Service, c.Lease = time.Hour, time.Hour })
	d.ask("held", "a", 8, 0)
	large := d.ask("large", "b", 6, time.Hour)
	d.ask("more of a", "a", 1, time.Hour)
	d.want("grant held")
	d.leave(large)
	d.want("grant more of a")
}

// Who is parked, and who is not.
func TestParking(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(d *desk)
	}{
		{"nothing computed: gone when the lease is over, for anybody", func(d *desk) {
			d.ask("empty", "a", 4, 0)
			d.ask("more", "a", 4, 0)
			d.after(8 * time.Second)
			d.want("grant empty", "grant more")
			d.ask("late", "a", 4, 5*time.Second)
			d.want()
			d.after(2 * time.Second)
			d.want("park empty", "grant late")
		}},
		{"more than a share: for whoever has less, after its service", func(d *desk) {
			x, y := d.ask("x", "a", 5, 0), d.ask("y", "a", 5, 0)
			d.rows(0, x, y)
			d.ask("b's", "b", 2, 0)
			d.want("grant x", "grant y")
			d.after(2 * time.Second)
			d.want("park x", "grant b's")
		}},
		{"service grows with what a replay costs", func(d *desk) {
			x := d.ask("x", "a", 8, 0)
			d.rows(6*time.Second, x)
			d.ask("b's", "b", 4, time.Minute)
			d.after(13*time.Second + 750*time.Millisecond)
			d.want("grant x")
			d.after(250 * time.Millisecond)
			d.want("park x", "grant b's")
		}},
		{"within a share and in use: never", func(d *desk) {
			x, y := d.ask("x", "a", 5, 0), d.ask("y", "b", 5, 0)
			for range 100 {
				d.rows(0, x, y)
				d.ask("flood", "c", 4, 0)
				d.after(time.Second)
			}
			if d.log = slices.DeleteFunc(d.log, func(s string) bool { return strings.HasPrefix(s, "flood: ") }); true {
				d.want("grant x", "grant y")
			}
		}},
		{"at rest: for anybody", func(d *desk) {
			x, y := d.ask("x", "a", 5, 0), d.ask("y", "b", 5, 0)
			d.rows(0, x, y)
			d.after(30 * time.Second)
			d.rows(0, y)
			d.ask("c's", "c", 5, time.Minute)
			d.after(31 * time.Second)
			d.want("grant x", "grant y")
			d.after(time.Second)
			d.want("park x", "grant c's")
		}},
		{"without pressure: nobody", func(d *desk) {
			d.rows(0, d.ask("x", "a", 5, 0))
			d.ask("empty", "a", 3, 0)
			d.after(time.Hour)
			d.ask("b's", "b", 2, 0)
			d.want("grant x", "grant empty", "grant b's")
		}},
		{"while it computes: not", func(d *desk) {
			x := d.ask("x", "a", 8, 0)
			d.doing[x] = Running
			d.after(time.Minute)
			d.ask("b's", "b", 4, time.Minute)
			d.after(10 * time.Second)
			d.want("grant x")
			d.doing[x] = Quiet
			d.settle()
			d.want("park x", "grant b's")
		}},
		{"rows that wait are use", func(d *desk) {
			x := d.ask("x", "a", 8, 0)
			d.doing[x] = Queued
			d.after(2 * time.Minute)
			d.ask("more of a", "a", 4, time.Second)
			d.after(time.Second)
			d.want("grant x", "more of a: cannot reserve cache for 256 tokens: the cache is full (128 tokens free) after waiting 1.0 s")
		}},
		{"the longest at rest, weighed by size", func(d *desk) {
			small, large := d.ask("small", "a", 1, 0), d.ask("large", "a", 5, 0)
			fresh := d.ask("fresh", "a", 4, 0)
			d.rows(0, small)
			d.after(20 * time.Second)
			d.rows(0, large)
			d.after(70 * time.Second)
			d.rows(0, fresh)
			d.ask("late", "a", 1, 0)
			d.want("grant small", "grant large", "grant fresh", "park large", "grant late")
		}},
		{"no more than needed, and nobody in vain", func(d *desk) {
			small, large, busy := d.ask("small", "a", 2, 0), d.ask("large", "a", 6, 0), d.ask("busy", "a", 2, 0)
			d.rows(0, large)
			d.after(time.Second)
			d.rows(0, small)
			d.after(5 * time.Minute)
			d.rows(0, busy)
			d.ask("too large", "a", 8, 0)
			d.want("grant small", "grant large", "grant busy", "park large", "park small", "grant too large")
			d.ask("in vain", "a", 4, 0)
			d.want("in vain: cannot reserve cache for 256 tokens: the cache is full (0 tokens free) after waiting 0.0 s")
		}},
		{"peers of one prefix share its share", func(d *desk) {
			x, y := d.ask("x", "a@net", 5, 0), d.ask("y", "b@net", 2, 0)
			z := d.ask("z", "c", 3, 0)
			d.rows(0, x, y, z)
			d.after(5 * time.Second)
			d.want("grant x", "grant y", "grant z")
			d.ask("another", "d@net", 2, 0) // net has 7 of 10: not for c's, but for a's
			d.want("park x", "grant another")
		}},
		{"a peer over its cap parks its own", func(d *desk) {
			d.c.cfg.Peer.Pages = 5
			x, y, z := d.ask("x", "a", 3, 0), d.ask("y", "a", 2, 0), d.ask("z", "b", 1, 0)
			d.rows(0, x, y, z)
			d.after(2 * time.Minute)
			d.rows(0, y)
			d.ask("another", "a", 2, 0)
			d.want("grant x", "grant y", "grant z", "park x", "grant another")
		}},
		{"the node's own gateway has no cap", func(d *desk) {
			d.c.cfg.Peer, d.c.cfg.Own = Cap{Sessions: 1, Pages: 2}, "me"
			d.ask("x", "me", 5, 0)
			d.ask("y", "me", 5, 0)
			d.want("grant x", "grant y")
		}},
		{"one that was parked comes back, stands in line, and is left alone for its replay", func(d *desk) {
			claim := Claim{Peer: "a", Session: "s", Tokens: 8 * page}
			x := d.claim("x", claim)
			d.c.Computed(d.now, x, 5*time.Second, false)
			d.after(2 * time.Second)
			y := d.ask("b's", "b", 4, 0)
			d.want("grant x", "park x", "grant b's")
			again := d.claim("x again", claim)
			d.after(2 * time.Second)
			d.want() // though it asks for more than its share and would not wait
			d.after(time.Second)
			d.want("x again: cannot reserve cache for 512 tokens: the cache is full (384 tokens free) after waiting 3.0 s")
			again = d.claim("x again", claim)
			d.after(2 * time.Second)
			d.leave(y)
			d.want("grant x again")
			d.rows(0, again)
			d.ask("b's second", "b", 4, time.Minute)
			d.after(21*time.Second + 750*time.Millisecond)
			d.want()
			d.after(250 * time.Millisecond)
			d.want("park x again", "grant b's second")
		}},
		{"a full line sheds whoever stands in it most", func(d *desk) {
			d.c.cfg.Sessions = 3
			for i := range 3 {
				d.rows(0, d.ask(fmt.Sprint("held ", i), "h", 3, 0))
			}
			d.log = nil
			for i := range 3 {
				d.ask(fmt.Sprint("flood ", i), "a", 8, time.Hour)
			}
			d.ask("late", "b", 8, time.Hour)
			d.want("park flood 0")
			d.ask("again", "a", 8, time.Hour)
			d.want("again: it has 3 sessions, the most it takes")
		}},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(newDesk(t, nil)) })
	}
}

// Two sessions that do not fit side by side do not park each other in turns: one that is in
// use stays, and one at rest has had its rest.
func TestNoTurns(t *testing.T) {
	d := newDesk(t, nil)
	parked := 0
	cur := [2]ID{}
	for range 600 { // ten minutes of two users who never rest, each with a client that asks again
		for i := range cur {
			if cur[i] == 0 {
				cur[i] = d.ask(fmt.Sprint(i), fmt.Sprint("peer ", i), 7, 0)
			}
		}
		d.after(time.Second)
		for _, s := range d.log {
			for i := range cur {
				if strings.HasPrefix(s, fmt.Sprint(i, ":")) || s == fmt.Sprint("park ", i) {
					cur[i] = 0
				}
			}
			if strings.HasPrefix(s, "park") {
				parked++
			}
		}
		d.log = nil
		for _, id := range cur {
			d.rows(100*time.Millisecond, id)
		}
	}
	if parked > 0 {
		t.Errorf("%d times one was parked for the other", parked)
	}
}

func TestConfig(t *testing.T) {
	good := Config{Pages: 1, Sessions: 1}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Pages = 0 }, func(c *Config) { c.Sessions = 0 }, func(c *Config) { c.MaxTokens = -1 },
		func(c *Config) { c.Peer.Pages = -1 }, func(c *Config) { c.Prefix.Sessions = -1 }, func(c *Config) { c.Rest = -1 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestRefusalsWrapTheirReason(t *testing.T) {
	if err := error(&Refusal{Reason: ErrFull}); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
}

// Memory is short: whoever computed nothing goes first, then the longest at rest by its size, then
// those whose rows wait; nobody whose rows are being computed, and no more than it takes.
func TestShed(t *testing.T) {
	for _, c := range []struct {
		pages int
		want  string
	}{{1, "park unused"}, {2, "park unused, park large"}, {5, "park unused, park large, park small"}, {100, "park unused, park large, park small, park waits"}, {0, ""}} {
		d := newDesk(t, func(c *Config) { c.Pages = 20 })
		small, large := d.ask("small", "a", 1, 0), d.ask("large", "b", 3, 0)
		waits, runs := d.ask("waits", "c", 4, 0), d.ask("runs", "d", 4, 0)
		for _, id := range []ID{small, large, waits, runs} {
			d.c.Computed(d.now, id, time.Millisecond, false)
		}
		d.now = d.now.Add(time.Second)
		d.ask("unused", "e", 1, 0)
		d.ask("in line", "f", 8, time.Hour)
		d.doing[waits], d.doing[runs] = Queued, Running
		d.now, d.log = d.now.Add(time.Second), nil
		d.park(d.c.Shed(d.now, c.pages, d.activity))
		if got := strings.Join(d.log, ", "); got != c.want {
			t.Errorf("%d pages: %s, want %s", c.pages, got, c.want)
		}
	}
}

// A lower cap takes nothing from who holds more, and lets nobody else have it.
func TestConfigure(t *testing.T) {
	tight := func(c *Config) { c.Service, c.Lease = time.Hour, time.Hour } // nobody is parked
	d := newDesk(t, tight)
	a := d.ask("a", "one", 4, 0)
	b := d.ask("b", "one", 2, 0)
	d.want("grant a", "grant b")
	cfg := d.c.cfg
	cfg.Peer = Cap{Sessions: 1, Pages: 3}
	if err := d.c.Configure(cfg); err != nil {
		t.Fatal(err)
	}
	d.settle()
	d.want()
	d.ask("c", "one", 1, 0)
	d.ask("d", "two", 3, 0)
	if len(d.log) != 2 || !strings.HasPrefix(d.log[0], "c: ") || d.log[1] != "grant d" {
		t.Errorf("decided %q", d.log)
	}
	d.log = nil
	d.leave(a)
	d.ask("e", "one", 1, 0)
	d.leave(b)
	d.ask("f", "one", 1, 0)
	if len(d.log) != 2 || !strings.HasPrefix(d.log[0], "e: ") || d.log[1] != "grant f" {
		t.Errorf("decided %q", d.log)
	}
	cfg.Pages = 0
	if err := d.c.Configure(cfg); err == nil {
		t.Error("a cache without pages is taken")
	}
}
