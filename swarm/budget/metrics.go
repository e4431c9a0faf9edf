package budget

import "github.com/prometheus/client_golang/prometheus"

var (
	descUsed    = prometheus.NewDesc("whorl_budget_used", "What strangers hold of a budget at present.", []string{"budget"}, nil)
	descTotal   = prometheus.NewDesc("whorl_budget_total", "The size of a budget.", []string{"budget"}, nil)
	descRefused = prometheus.NewDesc("whorl_budget_refused_total", "What a budget did not give, by whose share was used up.", []string{"budget", "reason"}, nil)
)

// Register shows pools in a registry; nil shows them nobody.
func Register(r prometheus.Registerer, pools ...*Pool) error {
	if r == nil {
		return nil
	}
	for _, p := range pools {
		if err := r.Register(p); err != nil {
			return err
		}
	}
	return nil
}

// Describe describes nothing: a pool's name is a label, so that collectors of several pools
// would be taken for one.
func (p *Pool) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (p *Pool) Collect(out chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out <- prometheus.MustNewConstMetric(descUsed, prometheus.GaugeValue, float64(p.used), p.name)
	out <- prometheus.MustNewConstMetric(descTotal, prometheus.GaugeValue, float64(p.total), p.name)
	for _, why := range []string{ReasonTotal, ReasonPeer, ReasonNet} {
		out <- prometheus.MustNewConstMetric(descRefused, prometheus.CounterValue, float64(p.refused[why]), p.name, why)
	}
}
