package balance

import (
	"fmt"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/health"
)

// Action is what a server does about its blocks.
type Action uint8

// The actions.
const (
	// Stay: hold what it holds; withdraw an intent that was announced.
	Stay Action = iota
	// Intend: announce the span as an open intent, and look again.
	Intend
	// Go: the intent is final. Announce it so, load the blocks, and move.
	Go
)

var actions = [...]string{"stay", "intend", "go"}

// String is the lower-case name.
func (a Action) String() string { return actions[a] }

// Decision is what a server does next, and why.
type Decision struct {
	Do   Action
	Span swarm.Span // to hold: where it stays, or goes
	// Gain is the share by which the block that needs it most gets more, at most MaxGain: 0.5
	// is half as much again. A newcomer tells none.
	Gain float64
	// Alarm says that a hole or a lone unsteady server is the reason.
	Alarm  bool
	Reason string
	// Again is when to look again at the latest; a new alarm in a view is a reason to look at
	// once.
	Again time.Duration
}

// MaxGain bounds a gain: a block that has nothing gains without end.
const MaxGain = 1000

// Mover is a server's memory of its own choices, from its first one as a newcomer. The zero
// value is ready. It is not safe for concurrent use.
type Mover struct {
	intent *swarm.Intent // announced
	since  time.Time     // when the present intent was made, or changed
	why    Decision      // of the present intent
	loaded time.Time     // when blocks were last loaded, or could not be
	target swarm.Span    // of a move that is wanted
	wanted int           // checks in a row that wanted a move for throughput
	passed int           // checks in a row that let others go first
	who    uint64        // of the census that it saw last
	came   time.Time     // when that changed
}

// Loaded tells that the blocks of the last intent are loaded, or that loading failed: the
// server stays for a while.
func (m *Mover) Loaded(now time.Time) { *m = Mover{loaded: now, who: m.who, came: m.came} }

// Intent is what the server announces beside its span; nil if it stays.
func (m *Mover) Intent() *swarm.Intent { return m.intent }

// Next decides for one server at one time: newcomers and those that serve alike. What the
// census says of the server itself may be old.
func (m *Mover) Next(c Config, full *Census, me Self, now time.Time) Decision {
	if len(full.rate) == 0 {
		return Decision{Reason: "nothing is known of the model", Again: c.Check}
	}
	if m.intent != nil && !m.intent.Open {
		d := m.why
		d.Do, d.Span, d.Again = Go, m.intent.Span, c.Check
		return d
	}
	if me.Pinned && me.Span != nil {
		return Decision{Span: *me.Span, Reason: "the operator chose the blocks", Again: c.Check}
	}
	if m.intent == nil && me.Span != nil {
		if d, calm := m.calm(c, full, &me); calm {
			return d
		}
	}
	full = full.telling(&me, m.intent)
	if me.Span != nil && m.intent == nil {
		return m.consider(c, full, &me, now)
	}
	agreed := full.clone()
	agreed.trusting = me.Span == nil
	p := agreed.agree(c, me.Peer)
	if me.Span != nil {
		return m.confirm(c, &me, p, now)
	}
	return m.join(c, agreed, &me, p, now)
}

// join is a newcomer's choice.
func (m *Mover) join(c Config, all *Census, me *Self, agreed *place, now time.Time) Decision {
	rest, mine := all.without(me.Peer)
	if agreed == nil || m.intent == nil {
		weight := float64(sureHolder)
		if mine != nil {
			weight = mine.weight
		}
		p := rest.best(rest.scale(0), me, weight, c.Shorter, swarm.Span{})
		agreed = &p
	}
	d := Decision{Do: Intend, Span: agreed.span, Reason: rest.needs(agreed.span)}
	switch {
	case m.intent == nil: // first it says that it is there, and hears who else is
		m.intent, m.since = &swarm.Intent{Open: true, Since: now.UnixMilli()}, now
		if c.Settle > 0 {
			m.why = d
			break
		}
		fallthrough
	case m.intent.Span.Len() > 0 && m.intent.Span != agreed.span || m.intent.Span.Len() == 0 && now.Sub(m.since) >= c.Settle/2:
		m.intent, m.since, m.why = &swarm.Intent{Span: agreed.span, Open: true, Since: m.intent.Since}, now, d
	}
	if m.intent.Span.Len() == 0 {
		d.Again = max(c.Settle/2-now.Sub(m.since), time.Millisecond)
		return d
	}
	// It has heard of all that began before it: one way of a record is enough from here.
	return m.settle(m.why, c.Settle/2, c, now)
}

// settle makes an intent final that has stood for long enough.
func (m *Mover) settle(d Decision, stands time.Duration, c Config, now time.Time) Decision {
	left := stands - now.Sub(m.since)
	if left <= 0 {
		m.intent = &swarm.Intent{Span: m.intent.Span, Since: m.intent.Since}
		d.Do, d.Again = Go, c.Check
		return d
	}
	d.Again = min(left, max(c.Settle/4, time.Millisecond))
	return d
}

// confirm looks again at an intent that was announced.
func (m *Mover) confirm(c Config, me *Self, agreed *place, now time.Time) Decision {
	if agreed == nil {
		d := Decision{Span: *me.Span, Reason: fmt.Sprintf("others chose at the same time, and %v is needed less now, or %v more", m.intent.Span, *me.Span), Again: c.Settle}
		m.intent = nil
		return d
	}
	return m.settle(m.why, serving*c.Settle, c, now)
}

// calm tells whether there is no reason to look for another place, and says why.
func (m *Mover) calm(c Config, full *Census, me *Self) (Decision, bool) {
	if c.Quality == 0 {
		return m.rest(c, me, "moves are turned off"), true
	}
	block, quality := full.quality()
	if quality < c.Quality || full.alarmed() {
		return Decision{}, false
	}
	return m.rest(c, me, fmt.Sprintf("the worst-served block, %d, has %s of an even spread", block, percent(quality))), true
}

// rest is a check that wants nothing.
func (m *Mover) rest(c Config, me *Self, why string) Decision {
	m.wanted, m.passed = 0, 0
	return Decision{Span: *me.Span, Reason: why, Again: c.Check}
}

// consider decides whether a server that has announced nothing wants to move.
func (m *Mover) consider(c Config, full *Census, me *Self, now time.Time) Decision {
	raw := full
	if full = raw.settled(c); full != raw {
		if d, calm := m.calm(c, full, me); calm { // by what others intend
			return d
		}
	}
	c = m.mood(c, raw, full, now)
	alarms := full.alarms()
	if left := c.Cooldown - now.Sub(m.loaded); len(alarms) == 0 && !m.loaded.IsZero() && left > 0 {
		return m.rest(c, me, fmt.Sprintf("it loaded blocks a short time ago and stays for %v", left.Round(time.Second)))
	}

	rest, mine := full.without(me.Peer)
	weight := float64(sureHolder)
	if mine != nil {
		weight = mine.weight
	}
	move, why := rest.move(c, me, weight)
	if move == nil {
		return m.rest(c, me, why)
	}
	alarm := slices.ContainsFunc(alarms, func(s swarm.Span) bool { return overlap(s, move.span) && !me.Span.Contains(s) })
	d := Decision{Span: *me.Span, Alarm: alarm, Again: c.Check}
	block, before, after := rest.lifts(move.span, *me.Span, me.offer(full, move.span.Len()))
	d.Gain = MaxGain
	if before > 0 {
		d.Gain = min(after/before-1, MaxGain)
	}
	if alarm {
		why = fmt.Sprintf("%s %s: %v instead of %v", health.Blocks(alarms), lacking(full, alarms), move.span, *me.Span)
	} else {
		why = fmt.Sprintf("%v instead of %v: block %d has %s of an even spread and would have %s", move.span, *me.Span, block, percent(before), percent(after))
	}
	rested := c.Cooldown
	if alarm {
		rested = min(rested, c.Check)
	}
	if left := rested - now.Sub(m.loaded); !m.loaded.IsZero() && left > 0 {
		d.Reason, d.Again = why+fmt.Sprintf("; but it loaded blocks a short time ago and stays for %v", left.Round(time.Second)), min(left, c.Check)
		return d
	}
	if m.wanted > 0 && !overlap(m.target, move.span) { // another reason
		m.wanted = 0
	}
	m.target = move.span
	looks := c.Looks
	if move.gain < c.Eager {
		looks = int(min(float64(c.Looks)*c.Eager/move.gain, maxLooks))
	}
	if m.wanted++; !alarm && m.wanted < looks {
		d.Reason = why + fmt.Sprintf("; it waits whether %d more checks say so", looks-m.wanted)
		return d
	}
	slots := max(1, int(c.Moving*float64(len(full.members)))) - full.moving
	if alarm {
		slots, d.Again = max(1, slots), max(c.Settle/2, time.Millisecond)
	}
	if slots <= 0 {
		d.Reason = why + fmt.Sprintf("; but %d servers are moving", full.moving)
		return d
	}
	if first := raw.gainMore(c, full, me.Peer, move.lift, alarms, alarm, slots<<min(m.passed, 16)); first > 0 {
		m.passed++
		d.Reason = why + fmt.Sprintf("; but %d servers gain more and go first", first)
		return d
	}
	m.wanted, m.passed = 0, 0
	m.intent, m.since = &swarm.Intent{Span: move.span, Open: true, Since: now.UnixMilli()}, now
	d.Do, d.Span, d.Reason = Intend, move.span, why
	m.why = d
	return m.settle(d, serving*c.Settle, c, now)
}

// mood is how eager a server is now: more so where nobody has come or gone for a while, and where
// a block is served badly.
func (m *Mover) mood(c Config, raw, full *Census, now time.Time) Config {
	if raw.who != m.who || m.came.IsZero() {
		m.who, m.came = raw.who, now
	}
	if now.Sub(m.came) >= c.Calm {
		c.Eager = min(c.Eager, c.Fine)
	}
	if _, share := full.quality(); share < c.Urgent {
		c.Eager, c.Cooldown = 0, min(c.Cooldown, c.Hasty)
	}
	return c
}

// maxLooks bounds how many checks a small gain waits for.
const maxLooks = 1000

// serving is how many times as long an intent of a server that serves must stand: nothing
// that it leaves may be left by another at the same time, so each must have heard of the
// other, even if the record is the last to arrive.
const serving = 3

// Preview is what a server would do if nothing held it back: neither a pause after its last
// move nor others that gain more. Nothing is remembered.
func Preview(c Config, full *Census, me Self) Decision {
	switch {
	case me.Span == nil:
		return new(Mover).Next(c, full, me, time.Time{})
	case me.Pinned:
		return Decision{Span: *me.Span, Reason: "the operator chose the blocks"}
	}
	c.Looks, c.Settle, c.Moving = 1, 0, 1
	return (&Mover{passed: 32}).Next(c, full, me, time.Time{})
}
