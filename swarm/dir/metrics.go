package dir

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what an operator asks about when nodes do not find each other.
type metrics struct {
	refused   *prometheus.CounterVec // by kind
	exchanges *prometheus.CounterVec // by result
	lost      prometheus.Counter
	rejoins   prometheus.Counter
	suspects  prometheus.Counter
	twins     prometheus.Counter
}

// newMetrics registers the counters; known tells how many records are held.
func newMetrics(reg prometheus.Registerer, known func() float64) *metrics {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "whorl", Subsystem: "directory", Name: name, Help: help})
	}
	by := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "whorl", Subsystem: "directory", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		refused:   by("records_refused_total", "Records refused, by reason.", "reason"),
		exchanges: by("exchanges_total", "Exchanges of records with peers, by result.", "result"),
		lost:      count("lost_total", "Times that no initial peer was connected any more."),
		rejoins:   count("rejoins_total", "Attempts to reach an initial peer again."),
		suspects:  count("suspects_total", "Peers that stopped answering before their record expired."),
		twins:     count("twins_total", "Records signed with this node's identity by another process."),
	}
	if reg != nil {
		reg.MustRegister(m.refused, m.exchanges, m.lost, m.rejoins, m.suspects, m.twins,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "whorl", Subsystem: "directory", Name: "records", Help: "Peers whose record is held."}, known))
	}
	return m
}
