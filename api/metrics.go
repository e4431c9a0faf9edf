package api

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/client"
)

// metrics are what this package counts. Labels are bounded: routes are patterns, models
// are those served.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	tokens   *prometheus.CounterVec
	answers  *prometheus.CounterVec
	first    *prometheus.HistogramVec
	reroutes *prometheus.CounterVec
	sockets  prometheus.Gauge
}

// newMetrics registers them. It may be called twice on one registry.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "whorl_http_requests_total", Help: "HTTP requests answered."}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "whorl_http_request_seconds", Help: "Time to answer an HTTP request to its end.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60, 300}}, []string{"route"}),
		tokens:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "whorl_tokens_total", Help: "Tokens of finished turns."}, []string{"model", "kind"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "whorl_answers_total", Help: "Turns of generation by how they ended."}, []string{"model", "finish"}),
		first: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "whorl_first_token_seconds", Help: "Time from a turn's start to its first token.",
			Buckets: []float64{.02, .05, .1, .2, .5, 1, 2, 5, 10, 30}}, []string{"model"}),
		reroutes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "whorl_reroutes_total", Help: "Fail-overs in the middle of a turn."}, []string{"model"}),
		sockets:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "whorl_websockets", Help: "WebSockets open."}),
	}
	return m, errors.Join(register(reg, &m.requests), register(reg, &m.seconds), register(reg, &m.tokens), register(reg, &m.answers),
		register(reg, &m.first), register(reg, &m.reroutes), register(reg, &m.sockets))
}

// register adds a collector, or takes the one that is there.
func register[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	err := reg.Register(*c)
	var twice prometheus.AlreadyRegisteredError
	if !errors.As(err, &twice) {
		return err
	}
	old, ok := twice.ExistingCollector.(C)
	if !ok {
		return err
	}
	*c = old
	return nil
}

func (m *metrics) request(route, method string, status int, took time.Duration) {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
	default:
		method = "other" // a stranger must not be able to make label values
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	if status != 101 { // a socket lives as long as its user likes
		m.seconds.WithLabelValues(route).Observe(took.Seconds())
	}
}

func (m *metrics) turn(model string, res client.Result, err error) {
	finish := string(res.Finish)
	if err != nil {
		finish = "error"
	}
	m.answers.WithLabelValues(model, finish).Inc()
	m.tokens.WithLabelValues(model, "prompt").Add(float64(res.PromptTokens))
	m.tokens.WithLabelValues(model, "completion").Add(float64(len(res.IDs)))
	m.reroutes.WithLabelValues(model).Add(float64(res.Reroutes))
	if len(res.IDs) > 0 {
		m.first.WithLabelValues(model).Observe(res.Timings.Prefill.Seconds())
	}
}

// SocketOpen counts a WebSocket; call the result when it is closed.
func (a *API) SocketOpen() (closed func()) {
	a.metrics.sockets.Inc()
	return a.metrics.sockets.Dec
}
