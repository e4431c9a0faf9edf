package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the server's figures for Prometheus.
type metrics struct {
	steps          prometheus.Counter
	rows           prometheus.Counter
	parts          prometheus.Counter
	stepTime       prometheus.Histogram
	stepWait       prometheus.Counter
	prefill        prometheus.Counter
	duplicates     prometheus.Counter
	journalDropped prometheus.Counter
	parked         prometheus.Counter
	shed           prometheus.Counter
	receipts       prometheus.Counter
	restarts       prometheus.Counter
	moves          *prometheus.CounterVec
	heals          prometheus.Histogram
	holes          prometheus.Gauge
	failures       *prometheus.CounterVec
	sentRows       *prometheus.CounterVec
	sentBytes      *prometheus.CounterVec
	takenRows      *prometheus.CounterVec
	takenBytes     *prometheus.CounterVec
	passes         *prometheus.CounterVec
	passRows       prometheus.Counter
	passTime       prometheus.Histogram
}

// Where frames of rows go and come from, as metrics name it.
const (
	wayNext    = "next"    // pushed to the stage behind
	wayClient  = "client"  // results to the client, or rows from it
	wayJournal = "journal" // copies of what was pushed, to the client
	wayPrev    = "prev"    // from the stage before
)

// sent counts a frame of rows that was made.
func (m *metrics) sent(way string, rows, bytes int) {
	m.sentRows.WithLabelValues(way).Add(float64(rows))
	m.sentBytes.WithLabelValues(way).Add(float64(bytes))
}

// taken counts a frame of rows that came.
func (m *metrics) taken(src source, rows, bytes int) {
	way := wayClient
	if src == fromPrev {
		way = wayPrev
	}
	m.takenRows.WithLabelValues(way).Add(float64(rows))
	m.takenBytes.WithLabelValues(way).Add(float64(bytes))
}

// newMetrics makes the collectors, and registers them if there is a registry.
func newMetrics(s *Server, r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "whorl", Subsystem: "server", Name: name, Help: help})
	}
	by := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "whorl", Subsystem: "server", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		steps: counter("steps_total", "Iterations computed."),
		rows:  counter("rows_total", "Rows computed: one is one position of one session through its blocks."),
		parts: counter("step_sessions_total", "Sessions that took part in iterations; divided by steps this is the batch size."),
		stepTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "whorl", Subsystem: "server", Name: "step_seconds", Help: "Time of an iteration.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
		stepWait:       counter("step_wait_seconds_total", "Time that iterations waited for rows while others were ready; divided by steps this is the mean wait."),
		prefill:        counter("prefill_rows_total", "Rows computed that belong to prompts or replays: beside running answers they take a bounded share of the time."),
		duplicates:     counter("duplicate_rows_total", "Rows that had arrived before."),
		journalDropped: counter("journal_dropped_rows_total", "Journal rows that found no room."),
		parked:         counter("parked_sessions_total", "Sessions parked because others needed their cache."),
		shed:           counter("memory_parked_sessions_total", "Sessions parked because memory was short."),
		receipts:       counter("receipts_total", "Receipts signed for clients that asked for them."),
		restarts:       counter("restarts_total", "Times that the compute loop failed and the blocks had to be loaded anew."),
		moves:          by("moves_total", "Moves to other blocks, by reason: alarm, throughput or operator.", "reason"),
		heals: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "whorl", Subsystem: "server", Name: "heal_seconds", Help: "Time for which a block of the model had no holder, as this server saw it.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
		holes:      prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "whorl", Subsystem: "server", Name: "holes", Help: "Blocks of the model that nobody holds, as this server sees it."}),
		failures:   by("failures_total", "Failures told to clients, by code.", "code"),
		sentRows:   by("rows_sent_total", "Rows sent: to the next stage, as results to the client, and as its journal.", "to"),
		sentBytes:  by("rows_sent_bytes_total", "Bytes of frames of rows sent; divided by rows these are the bytes per token of a hop.", "to"),
		takenRows:  by("rows_received_total", "Rows received, from the client or the stage before.", "from"),
		takenBytes: by("rows_received_bytes_total", "Bytes of frames of rows received.", "from"),
		passes:     by("passes_total", "Passes computed for clients that train, forward or backward.", "kind"),
		passRows:   counter("pass_rows_total", "Rows of passes, times the blocks that they went through."),
		passTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "whorl", Subsystem: "server", Name: "pass_seconds", Help: "Time of a pass from its first piece to its last, iterations in between included.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 16),
		}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range append(s.gauges(), reading{s}, m.steps, m.rows, m.parts, m.stepTime, m.stepWait, m.prefill, m.duplicates, m.journalDropped, m.parked, m.shed, m.receipts, m.restarts, m.moves, m.heals, m.holes, m.failures, m.sentRows, m.sentBytes, m.takenRows, m.takenBytes, m.passes, m.passRows, m.passTime) {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// reading is the budget of frames that are being read, which the memory plan replaces.
type reading struct{ s *Server }

func (r reading) Describe(out chan<- *prometheus.Desc) { r.s.reading.Load().Describe(out) }
func (r reading) Collect(out chan<- prometheus.Metric) { r.s.reading.Load().Collect(out) }

// gauges read the present state when they are scraped.
func (s *Server) gauges() []prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "whorl", Subsystem: "server", Name: name, Help: help}, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return value()
		})
	}
	return []prometheus.Collector{
		gauge("sessions", "Sessions this server is a stage of.", func() float64 { return float64(len(s.byKey)) }),
		gauge("queue_items", "Frames of rows that wait to be computed.", func() float64 { n, _ := s.queue.Len(); return float64(n) }),
		gauge("queue_rows", "Rows that wait to be computed.", func() float64 { _, n := s.queue.Len(); return float64(n) }),
		gauge("cache_tokens", "Size of the KV cache in tokens.", func() float64 { return float64(s.cacheStatusLocked().TotalTokens) }),
		gauge("cache_used_tokens", "Tokens of KV cache that sessions hold.", func() float64 { return float64(s.cacheStatusLocked().UsedTokens) }),
		gauge("memory_left_bytes", "Memory that is left before somebody is ended for it, as the tightest limit has it.", func() float64 { return float64(s.memory.now.Left) }),
		gauge("memory_stalled_ratio", "Share of the last ten seconds in which all work waited for memory.", func() float64 { return s.memory.now.Stalled }),
		gauge("memory_short", "1 while memory is short and no sessions are taken.", func() float64 {
			if s.memory.short != "" {
				return 1
			}
			return 0
		}),
		gauge("cache_waiting", "Sessions that wait for KV cache.", func() float64 { return float64(s.cacheStatusLocked().Waiting) }),
	}
}

// iteration records one iteration, which waited before it began.
func (m *metrics) iteration(took, waited time.Duration, rows, prefill, sessions int) {
	m.steps.Inc()
	m.rows.Add(float64(rows))
	m.parts.Add(float64(sessions))
	m.stepTime.Observe(took.Seconds())
	m.prefill.Add(float64(prefill))
	m.stepWait.Add(waited.Seconds())
}
