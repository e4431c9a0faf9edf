package sim

import (
	"fmt"
	"strings"
)

// Size of a plot, and of its margins, in pixels.
const (
	plotWidth, plotHeight = 800, 260
	plotLeft, plotBottom  = 48, 24
)

// Plot draws what the worst-served block has beside the bound, over time; minutes in which a
// block has no holder are shaded. It is an SVG picture.
func (r *Result) Plot() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`, plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`, plotWidth, plotHeight)
	top := 1.0
	for _, s := range r.Samples {
		top = max(top, s.Bound, s.Bottleneck)
	}
	wide, high := float64(plotWidth-plotLeft-8), float64(plotHeight-plotBottom-20)
	x := func(i int) float64 { return plotLeft + wide*float64(i)/float64(max(1, len(r.Samples)-1)) }
	y := func(v float64) float64 { return 20 + high*(1-v/top) }
	step := wide / float64(max(1, len(r.Samples)))
	for i, s := range r.Samples {
		if s.Held < r.Blocks {
			fmt.Fprintf(&b, `<rect x="%.1f" y="20" width="%.1f" height="%.0f" fill="#fbb"/>`, x(i), max(step, 1), high)
		}
	}
	for i := range 5 {
		v := top * float64(i) / 4
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="4" y="%.1f">%.0f</text>`, plotLeft, y(v), plotWidth-8, y(v)+4, v)
	}
	for i := range 7 {
		fmt.Fprintf(&b, `<text x="%.0f" y="%d">%.4g h</text>`, plotLeft+wide*float64(i)/6-8, plotHeight-8, r.Hours*float64(i)/6)
	}
	line := func(colour string, of func(Sample) float64) {
		var d strings.Builder
		for i, s := range r.Samples {
			fmt.Fprintf(&d, "%c%.1f %.1f", "ML"[min(i, 1)], x(i), y(of(s)))
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.2"/>`, d.String(), colour)
	}
	line("#888", func(s Sample) float64 { return s.Bound })
	line("#06c", func(s Sample) float64 { return s.Bottleneck })
	fmt.Fprintf(&b, `<text x="%d" y="13">%s, %s: tokens per second of the worst-served block (blue) and the bound (grey)</text></svg>`, plotLeft, r.Scenario, r.Policy)
	return b.String() + "\n"
}
