package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"whorl/client"
	"whorl/swarm"
)

// shape turns answers into what their route replies: a whole, or the chunks of an event
// stream. It is used by one goroutine.
type shape interface {
	whole(results []client.Result) any
	begin() []any // before all others
	delta(index int, d client.Delta) any
	finish(index int, r client.Result) any
	end() []any // after all others
}

// progress is what a running turn says before it ends.
type progress struct {
	index int
	delta client.Delta
}

// ending is a turn's last word.
type ending struct {
	index  int
	result client.Result
	err    error
}

// answer runs the turns of a request and replies as it asks, streamed or whole.
func (a *API) answer(w http.ResponseWriter, r *http.Request, o *options, turns []turn, c shape) {
	ctx, cancel, err := a.withDeadline(r, o.Timeout, o.timeoutHeader)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	defer cancel()
	if o.Stream {
		a.stream(ctx, w, r, turns, c)
		return
	}
	results, err := a.runAll(ctx, turns)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	reply(w, c.whole(results))
}

// stream runs the turns side by side and writes their chunks as server-sent events. It
// returns when all turns have ended, however that came.
//
// Until the first byte is written an error is a reply with its own status. That byte is
// the first chunk, or a comment once KeepAlive has passed in silence. An error after it is
// a chunk of its own, and the stream ends without [DONE].
func (a *API) stream(ctx context.Context, w http.ResponseWriter, r *http.Request, turns []turn, c shape) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := make(chan progress) // unbuffered: a slow reader slows the turn, not our memory
	ends := make(chan ending, len(turns))
	for _, t := range turns {
		if t.answers == 0 {
			continue
		}
		go func() {
			tell := func(index int) func(client.Delta) error {
				return func(d client.Delta) error {
					select {
					case news <- progress{index, d}:
						return nil
					case <-ctx.Done():
						return contextError(ctx)
					}
				}
			}
			res, err := a.run(ctx, t, tell(t.index))
			choices := t.choices(res)
			for i := range t.answers {
				e := ending{index: t.index + i, err: err}
				if i < len(choices) { // a search may find less than was asked for
					e.result = choices[i]
				}
				if err == nil && i > 0 { // the first one was told as it came
					e.err = tell(e.index)(client.Delta{Text: e.result.Text, IDs: e.result.IDs})
				}
				ends <- e
			}
		}()
	}
	out := events{w: w, control: http.NewResponseController(w), wait: a.limits.Write}
	left, err := a.pump(ctx, &out, c, news, ends, len(turns))
	cancel()
	for ; left > 0; left-- {
		// What a turn died of says more than that the time is over.
		if e := <-ends; e.err != nil && (swarm.CodeOf(err) == swarm.CodeTimeout || err == nil) && swarm.CodeOf(e.err) != swarm.CodeCancelled {
			err = e.err
		}
	}
	if err != nil {
		a.streamFailed(w, r, &out, err)
	}
}

// pump writes until all turns have ended, one has failed, or the reader is gone. It
// returns how many turns have not ended.
func (a *API) pump(ctx context.Context, out *events, c shape, news <-chan progress, ends <-chan ending, left int) (int, error) {
	silence := time.NewTicker(a.limits.KeepAlive)
	defer silence.Stop()
	for left > 0 {
		select {
		case p := <-news:
			out.begin(c)
			out.send(c.delta(p.index, p.delta))
			silence.Reset(a.limits.KeepAlive)
		case e := <-ends:
			left--
			if e.err != nil {
				return left, e.err
			}
			if e.result.Finish == client.FinishCancelled && ctx.Err() != nil {
				return left, contextError(ctx)
			}
			out.begin(c)
			out.send(c.finish(e.index, e.result))
		case <-silence.C:
			out.begin(c)
			out.comment()
		case <-ctx.Done():
			return left, contextError(ctx)
		}
		if out.err != nil {
			return left, out.err
		}
	}
	for _, v := range c.end() {
		out.send(v)
	}
	out.raw("data: [DONE]\n\n")
	return 0, out.err
}

// contextError is why a context ended, as an error with a code.
func contextError(ctx context.Context) error {
	err := context.Cause(ctx)
	var coded *swarm.Error
	switch {
	case errors.As(err, &coded):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return swarm.Errorf(swarm.CodeTimeout, swarm.Again, "the deadline of the request passed")
	case errors.Is(err, context.Canceled):
		return swarm.Errorf(swarm.CodeCancelled, swarm.Caller, "the request was cancelled")
	}
	return err
}

// streamFailed tells the reader of an error, if the reader is still there.
func (a *API) streamFailed(w http.ResponseWriter, r *http.Request, out *events, err error) {
	if r.Context().Err() != nil || out.err != nil {
		return
	}
	if !out.begun {
		a.fail(w, r, err)
		return
	}
	out.send(a.describe(r, err).openAI())
}

// events writes server-sent events. The first error sticks.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	wait    time.Duration // the longest a write may take
	begun   bool
	err     error
}

func (e *events) begin(c shape) {
	if e.begun {
		return
	}
	e.begun = true
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // proxies of the nginx kind would collect chunks
	e.w.WriteHeader(http.StatusOK)
	for _, v := range c.begin() {
		e.send(v)
	}
}

// send writes one event; nil is none.
func (e *events) send(v any) {
	if v == nil {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types
	}
	e.raw("data: " + string(b) + "\n\n")
}

func (e *events) comment() { e.raw(": still working\n\n") }

func (e *events) raw(s string) {
	if e.err != nil {
		return
	}
	// Not every writer has deadlines; those of real connections do.
	if err := e.control.SetWriteDeadline(time.Now().Add(e.wait)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		e.err = err
		return
	}
	if _, e.err = e.w.Write([]byte(s)); e.err == nil {
		if err := e.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			e.err = err
		}
	}
}
