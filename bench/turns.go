package bench

import "slices"

// Multiple is what one number of clients got compared with the first number of the same round.
type Multiple struct {
	Concurrency int     `json:"concurrency"`
	TokS        float64 `json:"tok_s"` // median of the rounds
	// Of is the median over the rounds of the rate over that of the first number of clients; Least
	// and Most are its ends.
	Of    float64 `json:"of_first"`
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	// BetweenMS are medians of the rounds; nil could not be measured.
	BetweenMS *Spread `json:"between_ms"`
}

// Multiples compares levels that were measured in turns, so many in a round.
func Multiples(levels []Level, each int) []Multiple {
	var out []Multiple
	for i := range min(each, len(levels)) {
		var rates, of, median, p95 []float64
		for at := i; at < len(levels); at += each {
			l, first := &levels[at], &levels[at-i]
			rates = append(rates, l.TokS)
			if first.TokS > 0 {
				of = append(of, l.TokS/first.TokS)
			}
			if l.BetweenMS != nil {
				median, p95 = append(median, l.BetweenMS.Median), append(p95, l.BetweenMS.P95)
			}
		}
		m := Multiple{Concurrency: levels[i].Concurrency, TokS: Median(rates), Of: Median(of)}
		if len(of) > 0 {
			m.Least, m.Most = slices.Min(of), slices.Max(of)
		}
		if len(median) > 0 {
			m.BetweenMS = &Spread{Median(median), Median(p95)}
		}
		out = append(out, m)
	}
	return out
}
