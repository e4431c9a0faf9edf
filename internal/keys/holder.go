package keys

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// Holder is a key in use at one node.
type Holder struct {
	mu       sync.Mutex // guards all below
	key      Key
	requests bucket
	tokens   bucket
	running  int
	freed    chan struct{} // closed when a place for an answer may have become free
	usage    Usage
	noted    time.Time // the use that the book knows of
}

// Usage is what a key did at one node since that started.
type Usage struct {
	Requests, PromptTokens, CompletionTokens int64
	Running                                  int // answers now
}

// Allowance is what is left of a limit.
type Allowance struct {
	Limit, Left int
	Full        time.Duration // until all of it is there again
}

// LimitError says that a key has used what it may.
type LimitError struct {
	What string // that there is too much of
	Most int
	Wait time.Duration // 0: until an answer ends
}

func (e *LimitError) Error() string {
	if e.Wait == 0 {
		return fmt.Sprintf("%d answers of this key are being made, the most it may have at a time: wait for one to end", e.Most)
	}
	return fmt.Sprintf("this key may use %d %s a minute and has used them: try again in %.0f s", e.Most, e.What, math.Ceil(e.Wait.Seconds()))
}

func newHolder(k Key) *Holder {
	return &Holder{key: k, freed: make(chan struct{}), noted: k.Used}
}

// change takes what the book says now.
func (h *Holder) change(k Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.key.Used.After(k.Used) {
		k.Used = h.key.Used // not noted yet
	}
	if k.Answers != h.key.Answers {
		h.wake()
	}
	h.key = k
}

// Key is what the book says of it.
func (h *Holder) Key() Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.key
}

// Usage is what it did here.
func (h *Holder) Usage() Usage {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.usage
	u.Running = h.running
	return u
}

// Enter counts a request. One that infers is refused while the key has used its tokens or while
// all its answers are being made; what it uses is told by Spend.
func (h *Holder) Enter(infers bool, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.key.Used = now.UTC().Truncate(time.Second)
	if h.key.Requests > 0 {
		if wait := h.requests.wait(h.key.Requests, 1, now); wait > 0 {
			return &LimitError{"requests", h.key.Requests, wait}
		}
	}
	if infers && h.key.Answers > 0 && h.running >= h.key.Answers {
		return &LimitError{What: "answers", Most: h.key.Answers}
	}
	if infers && h.key.Tokens > 0 {
		if wait := h.tokens.wait(h.key.Tokens, 1, now); wait > 0 {
			return &LimitError{"tokens", h.key.Tokens, wait}
		}
	}
	if h.key.Requests > 0 {
		h.requests.take(h.key.Requests, 1, now)
	}
	h.usage.Requests++
	return nil
}

// Begin waits for a place for an answer. Every nil is followed by one End.
func (h *Holder) Begin(ctx context.Context) error {
	for {
		h.mu.Lock()
		if h.key.Answers == 0 || h.running < h.key.Answers {
			h.running++
			h.mu.Unlock()
			return nil
		}
		freed := h.freed
		h.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// End gives the place of an answer back.
func (h *Holder) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	h.wake()
}

// wake has those who wait look again. Caller holds mu.
func (h *Holder) wake() {
	close(h.freed)
	h.freed = make(chan struct{})
}

// Spend counts tokens. They may be more than what is left: later requests wait for it.
func (h *Holder) Spend(prompt, completion int, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.usage.PromptTokens += int64(prompt)
	h.usage.CompletionTokens += int64(completion)
	if h.key.Tokens > 0 {
		h.tokens.take(h.key.Tokens, prompt+completion, now)
	}
}

// Allowances are what is left of requests and tokens; nil where there is no limit.
func (h *Holder) Allowances(now time.Time) (requests, tokens *Allowance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.key.Requests; n > 0 {
		requests = h.requests.allowance(n, now)
	}
	if n := h.key.Tokens; n > 0 {
		tokens = h.tokens.allowance(n, now)
	}
	return requests, tokens
}

// news is the last use, if the book does not know of it.
func (h *Holder) news() (id string, used time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ok = h.key.Used.After(h.noted)
	h.noted = h.key.Used
	return h.key.ID, h.key.Used, ok
}

// bucket holds what a limit per minute leaves: at most a minute's worth, and less than nothing
// where more was taken. The zero bucket is full.
type bucket struct {
	used float64
	at   time.Time
}

// flow lets time go by.
func (b *bucket) flow(limit int, now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.used = max(0, b.used-passed.Minutes()*float64(limit))
		b.at = now
	}
}

// wait is how long until n can be taken.
func (b *bucket) wait(limit, n int, now time.Time) time.Duration {
	b.flow(limit, now)
	return time.Duration(max(0, b.used+float64(n)-float64(limit)) / float64(limit) * float64(time.Minute))
}

func (b *bucket) take(limit, n int, now time.Time) {
	b.flow(limit, now)
	b.used += float64(n)
}

func (b *bucket) allowance(limit int, now time.Time) *Allowance {
	b.flow(limit, now)
	return &Allowance{Limit: limit, Left: max(0, limit-int(math.Ceil(b.used))), Full: time.Duration(b.used / float64(limit) * float64(time.Minute))}
}
