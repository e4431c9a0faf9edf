package sim

import (
	"math"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/route"
)

// tick lets all sessions go on for a while. Servers compute tokens in turn, one session's after the other's: how long
// each waits is the fixed point of Schweitzer's approximation for closed queueing networks, in which a session finds
// at a server those that are there on average without itself. It is followed from tick to tick.
func (t *traffic) tick() {
	now := t.w.now
	t.mend()
	for range 2 {
		t.share(now)
	}
	dt := flowEvery.Seconds()
	work := make([]float64, len(t.busy))
	keep := t.open[:0]
	for _, x := range t.open {
		if x.wait > now || x.stuck > 0 || x.step <= 0 {
			keep = append(keep, x)
			continue
		}
		done := min(dt/x.step, x.left)
		t.went(x, done)
		for i, h := range x.hops {
			work[h.server.id] += done * h.each()
			x.observed[h.server.Peer] = float64(h.span.Len()) / x.at[i]
		}
		if x.left -= done; x.left <= 0 {
			t.close(x)
			continue
		}
		keep = append(keep, x)
	}
	clear(t.open[len(keep):])
	t.open = keep
	old := math.Exp(-dt / busyOver.Seconds())
	for i := range t.busy {
		t.busy[i] = old*t.busy[i] + (1-old)*min(1, work[i]/dt)
	}
	for _, g := range t.gates {
		clear(g.told)
	}
	for _, x := range t.open {
		for _, h := range x.hops {
			x.told[h.server.Peer] = t.load(h.server)
		}
	}
	t.note(work, dt)
	t.improve()
	t.w.after(flowEvery, t.tick)
}

// each is how long a server computes for one token of a session.
func (h hop) each() float64 { return float64(h.span.Len()) / (h.server.Rate * h.server.pace) }

// ahead is how many tokens of others a token finds at the server of a hop, on average.
func (t *traffic) ahead(x *session, i int) float64 {
	own := 0.0
	if i < len(x.at) && x.step > 0 {
		own = x.at[i] / x.step
	}
	return max(0, t.queue[x.hops[i].server.id]-own)
}

// share goes a step towards the fixed point.
func (t *traffic) share(now time.Duration) {
	queue := make([]float64, len(t.queue))
	for _, x := range t.open {
		if x.wait > now || x.stuck > 0 {
			continue
		}
		step, at := x.link, make([]float64, len(x.hops))
		for i, h := range x.hops {
			at[i] = h.each() * (1 + t.ahead(x, i))
			step += at[i]
		}
		x.step, x.at = step, at
		for i, h := range x.hops {
			queue[h.server.id] += at[i] / step
		}
	}
	for i := range queue {
		t.queue[i] += (queue[i] - t.queue[i]) / 2
	}
}

// mend finds other servers for hops whose servers are gone or have moved.
func (t *traffic) mend() {
	keep := t.open[:0]
	for _, x := range t.open {
		if t.mended(x) {
			keep = append(keep, x)
		} else {
			t.lost++
			t.close(x)
		}
	}
	clear(t.open[len(keep):])
	t.open = keep
}

// mended is false of a session that ends, since nobody serves it for too long.
func (t *traffic) mended(x *session) bool {
	var lost swarm.Span
	told := true // they said so before they went
	for _, h := range x.hops {
		if h.there() {
			continue
		}
		if lost.Len() == 0 {
			lost.Start = h.span.Start
		}
		lost.End = h.span.End
		if s := h.server; !s.up && !s.polite || s.up && s.side != 0 {
			told = false
			x.avoid[s.Peer] = t.w.clock()
		}
	}
	if lost.Len() == 0 {
		return true
	}
	if x.stuck > 0 && t.w.now-x.stuck > patience {
		return false
	}
	if x.wait > t.w.now && x.stuck > 0 { // it tries again soon
		return true
	}
	if x.stuck == 0 && !told {
		x.wait = max(x.wait, t.w.now) + noticed
	}
	began := max(x.stuck, 0)
	if began == 0 {
		began = t.w.now
	}
	if !t.find(x, lost) {
		x.stuck, x.wait = began, t.w.now+retry
		return true
	}
	x.stuck = 0
	t.rerouted(x, told, began)
	return true
}

// improve has sessions change to clearly better chains.
func (t *traffic) improve() {
	if t.Routes != "better" {
		return
	}
	for _, x := range t.open {
		if x.stuck > 0 || x.wait > t.w.now || t.w.now-x.looked < improveEvery {
			continue
		}
		x.looked = t.w.now
		run := route.Running{Rows: int(x.rows()), Left: int(x.left), Since: t.w.now - x.moved, Prompt: x.left > x.tokens}
		for _, h := range x.hops {
			run.Hops = append(run.Hops, swarm.Hop{Peer: h.server.Peer, Span: h.span})
		}
		d, err := route.Better(t.query(x, swarm.Span{End: t.w.sc.Blocks}), run, route.DefaultPatience())
		if err != nil || !d.Change {
			continue
		}
		hops, gone := t.hops(d.Chain.Hops)
		if gone != nil {
			x.avoid[gone.Peer] = t.w.clock()
			continue
		}
		wait := x.wait
		t.take(x, hops)
		x.wait = wait // it goes on as it was until the new servers are fed
		t.changed++
	}
}

// close takes a session off its servers.
func (t *traffic) close(x *session) {
	for _, h := range x.hops {
		t.count[h.server.id]--
	}
}

// tally keeps the figures of sessions, of what began or happened once the swarm was warm.
type tally struct {
	came                            int
	refused, lost, changed          int
	reroutes, handed                int
	longest                         time.Duration // that a session waited for another server
	asked, gave, queued, took, span float64
	steps                           []float64 // tokens by the length of their step, on a logarithmic scale
	fullest                         float64   // busy share of the fullest server, over time
	mean                            float64
	blocks                          []float64 // per block, the busy share of its holders over time
	nights, noons                   share
}

// share is served of asked, in some hours.
type share struct{ asked, gave float64 }

// Scale of the steps: 0.1 ms at its begin, a hundred to each factor of e.
const (
	leastStep = 1e-4
	stepsPerE = 100
	stepCount = 1400
)

// hour tells whether it is night or noon.
func (t *traffic) hours() *share {
	switch h := math.Mod(t.w.now.Hours(), 24); {
	case h >= 9 && h < 15:
		return &t.noons
	case h < 3 || h >= 21:
		return &t.nights
	}
	return new(share)
}

func (t *traffic) warm() bool { return t.w.now > t.w.sc.Warm }

// arrived counts a session that begins.
func (t *traffic) arrived(x *session) {
	t.came++
	if t.warm() {
		t.asked += x.tokens
		t.hours().asked += x.tokens
		return
	}
	t.refused, t.lost, t.changed, t.reroutes, t.handed = 0, 0, 0, 0, 0
	t.longest = 0
}

// went counts tokens of a session.
func (t *traffic) went(x *session, done float64) {
	if !t.warm() {
		return
	}
	done = max(0, min(done, done+x.tokens-x.left)) // without the prompt
	t.gave += done
	t.hours().gave += done
	t.took += done * x.step
	for i, h := range x.hops {
		t.queued += done * (x.at[i] - h.each())
	}
	if t.steps == nil {
		t.steps = make([]float64, stepCount)
	}
	i := int(stepsPerE * math.Log(x.step/leastStep))
	t.steps[max(0, min(i, stepCount-1))] += done
}

// rerouted counts a session that has found other servers.
func (t *traffic) rerouted(x *session, told bool, began time.Duration) {
	if told {
		t.handed++
		return
	}
	t.reroutes++
	t.longest = max(t.longest, max(x.wait, t.w.now)-began)
}

// note takes down how busy servers and blocks are.
func (t *traffic) note(work []float64, dt float64) {
	if !t.warm() {
		return
	}
	if t.blocks == nil {
		t.blocks = make([]float64, t.w.sc.Blocks)
	}
	t.span += dt
	var most, sum, n float64
	busy, rate := make([]float64, len(t.blocks)), make([]float64, len(t.blocks))
	for i, s := range t.w.servers {
		if s.serving == nil {
			continue
		}
		b := min(1, work[i]/dt)
		most, sum, n = max(most, b), sum+b, n+1
		for at := s.serving.Start; at < s.serving.End; at++ {
			busy[at] += b * s.rate
			rate[at] += s.rate
		}
	}
	t.fullest += most * dt
	t.mean += sum / max(n, 1) * dt
	for b := range busy {
		if rate[b] > 0 {
			t.blocks[b] += busy[b] / rate[b] * dt
		}
	}
}

// Sessions are what a run showed of them.
type Sessions struct {
	Began    int     `json:"began"`
	Refused  int     `json:"refused"`                          // since blocks had no holder
	Lost     int     `json:"lost"`                             // that nobody served for a minute
	Tokens   float64 `json:"tokens_per_second"`                // of all
	Served   float64 `json:"served"`                           // of what was asked
	Noon     float64 `json:"served_at_noon"`                   // from 9 to 15 h; 0 if there was none
	Median   float64 `json:"token_seconds_median"`             // of all tokens
	P95      float64 `json:"token_seconds_p95"`                //
	Queued   float64 `json:"share_of_time_in_queues"`          // of a token's time
	Fullest  float64 `json:"busy_of_fullest_server"`           // mean over time
	Busy     float64 `json:"busy_of_servers"`                  // mean
	Block    float64 `json:"busiest_block_over_mean"`          // by its holders, weighted by what they give
	Changed  float64 `json:"changes_per_session"`              // to a better chain
	Reroutes int     `json:"reroutes_after_loss"`              // of servers that left without a word
	Longest  float64 `json:"longest_pause_seconds"`            // of those
	Handed   int     `json:"handed_over_before_leave_or_move"` // without a pause
}

// sessions is what the tally comes to; nil without readers.
func (t *traffic) sessions() *Sessions {
	if t == nil || t.span == 0 {
		return nil
	}
	all := 0.0
	for _, x := range t.steps {
		all += x
	}
	at := func(q float64) float64 {
		sum := 0.0
		for i, x := range t.steps {
			if sum += x; sum >= q*all && sum > 0 {
				return leastStep * math.Exp((float64(i)+0.5)/stepsPerE)
			}
		}
		return 0
	}
	over := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return a / b
	}
	s := &Sessions{Began: t.came, Refused: t.refused, Lost: t.lost, Tokens: t.gave / t.span, Served: over(t.gave, t.asked), Noon: over(t.noons.gave, t.noons.asked),
		Median: at(0.5), P95: at(0.95), Queued: over(t.queued, t.took), Fullest: t.fullest / t.span, Busy: t.mean / t.span,
		Changed: over(float64(t.changed), float64(t.came)), Reroutes: t.reroutes, Longest: t.longest.Seconds(), Handed: t.handed}
	mean := 0.0
	for _, b := range t.blocks {
		mean += b / float64(len(t.blocks))
	}
	if len(t.blocks) > 0 {
		s.Block = over(slices.Max(t.blocks), mean)
	}
	return s
}
