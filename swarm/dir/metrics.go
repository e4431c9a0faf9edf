package dir

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what an operator asks about when nodes do not find each other.
type metrics struct {
	refused   *prometheus.CounterVec // by kind
	exchanges *prometheus.CounterVec // by result
	lost      prometheus.Counter
	rejoins   prometheus.Counter
	suspects  *prometheus.CounterVec // by reason
	evicted   prometheus.Counter
	twins     prometheus.Counter
	finds     *prometheus.CounterVec // by what servers were found through
}

// What servers are found through.
const (
	byDHT    = "dht"
	byGossip = "gossip" // another peer told of it
	byCache  = "cache"  // the file of peers seen earlier, where no initial peer answered
)

// newMetrics registers the counters; known tells how many records are held, unreached how
// many of them are of peers that this node had no contact with.
func newMetrics(reg prometheus.Registerer, known, unreached func() float64) *metrics {
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
		suspects:  by("suspects_total", "Peers hidden before their record expired: no_answer to a ping, or session, which could not reach them.", "reason"),
		finds:     by("finds_total", "Servers found, by what they were found through: the DHT, another peer's word (gossip), or the file of peers seen earlier (cache).", "by"),
		evicted:   count("records_evicted_total", "Records dropped because their group of peers held most of a full store."),
		twins:     count("twins_total", "Records signed with this node's identity by another process."),
	}
	if reg != nil {
		gauge := func(name, help string, value func() float64) prometheus.Collector {
			return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "whorl", Subsystem: "directory", Name: name, Help: help}, value)
		}
		reg.MustRegister(m.refused, m.exchanges, m.lost, m.rejoins, m.suspects, m.evicted, m.twins, m.finds,
			gauge("records", "Peers whose record is held.", known),
			gauge("records_unreached", "Peers whose record is held and with which this node had no contact.", unreached))
	}
	return m
}
