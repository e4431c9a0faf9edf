package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/internal/keys"
	"whorl/swarm"
)

// rateHeaders are those that tell pages what a key has left.
const rateHeaders = "X-RateLimit-Limit-Requests, X-RateLimit-Remaining-Requests, X-RateLimit-Reset-Requests, X-RateLimit-Limit-Tokens, X-RateLimit-Remaining-Tokens, X-RateLimit-Reset-Tokens"

// holderOf is the key that a request showed; nil for none.
func holderOf(ctx context.Context) *keys.Holder {
	if p, ok := ctx.Value(passportKey{}).(*passport); ok {
		return p.key
	}
	return nil
}

// enter counts a request of a key, and says what the key has left.
func (a *API) enter(w http.ResponseWriter, r *http.Request, h *keys.Holder, to rule) error {
	if p, ok := r.Context().Value(passportKey{}).(*passport); ok {
		p.key = h
	}
	now := time.Now()
	err := h.Enter(to.scope == keys.Infer && changes(r), now)
	requests, tokens := h.Allowances(now)
	allowance(w.Header(), "Requests", requests)
	allowance(w.Header(), "Tokens", tokens)
	return limited(err)
}

// allowance writes what is left as OpenAI's API does.
func allowance(h http.Header, of string, a *keys.Allowance) {
	if a == nil {
		return
	}
	h.Set("X-RateLimit-Limit-"+of, strconv.Itoa(a.Limit))
	h.Set("X-RateLimit-Remaining-"+of, strconv.Itoa(a.Left))
	h.Set("X-RateLimit-Reset-"+of, a.Full.Round(time.Millisecond).String())
}

// begin waits for a place among the answers of a request's key; leave gives it back.
func begin(ctx context.Context) (leave func(), err error) {
	h := holderOf(ctx)
	if h == nil {
		return func() {}, nil
	}
	if err := h.Begin(ctx); err != nil {
		return nil, contextError(ctx)
	}
	return h.End, nil
}

// BeginTurn counts a turn on a WebSocket as a request of its key, and waits for its place; leave
// gives the place back.
func (a *API) BeginTurn(ctx context.Context) (leave func(), err error) {
	if h := holderOf(ctx); h != nil {
		if err := limited(h.Enter(true, time.Now())); err != nil {
			return nil, err
		}
	}
	return begin(ctx)
}

// limited says when what a key may not do now may be done.
func limited(err error) error {
	var limit *keys.LimitError
	if !errors.As(err, &limit) {
		return err
	}
	wait := limit.Wait
	if wait == 0 {
		wait = time.Second // answers end when they end
	}
	return &waitError{wait, swarm.Errorf(swarm.CodeTooMany, swarm.Again, "%v", err)}
}

// Spend counts tokens of a request's key, if it showed one.
func Spend(ctx context.Context, prompt, completion int) {
	if h := holderOf(ctx); h != nil {
		h.Spend(prompt, completion, time.Now())
	}
}

// keyMetrics are what keys used of this node.
type keyMetrics struct{ ring *keys.Ring }

var (
	keyRequests = prometheus.NewDesc("whorl_key_requests_total", "Requests that showed a key.", []string{"key"}, nil)
	keyTokens   = prometheus.NewDesc("whorl_key_tokens_total", "Tokens of requests that showed a key.", []string{"key", "kind"}, nil)
	keyAnswers  = prometheus.NewDesc("whorl_key_answers", "Answers that are being made for a key.", []string{"key"}, nil)
)

// Describe is of prometheus.Collector.
func (m keyMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- keyRequests
	out <- keyTokens
	out <- keyAnswers
}

// Collect tells of keys that were used; their names are the operator's.
func (m keyMetrics) Collect(out chan<- prometheus.Metric) {
	for _, h := range m.ring.Holders() {
		u, name := h.Usage(), h.Key().Name
		if u.Requests == 0 {
			continue
		}
		out <- prometheus.MustNewConstMetric(keyRequests, prometheus.CounterValue, float64(u.Requests), name)
		out <- prometheus.MustNewConstMetric(keyTokens, prometheus.CounterValue, float64(u.PromptTokens), name, "prompt")
		out <- prometheus.MustNewConstMetric(keyTokens, prometheus.CounterValue, float64(u.CompletionTokens), name, "completion")
		out <- prometheus.MustNewConstMetric(keyAnswers, prometheus.GaugeValue, float64(u.Running), name)
	}
}
