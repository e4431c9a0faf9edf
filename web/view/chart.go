package view

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Point is one moment of a series. Value is nil where nothing was measured.
type Point struct {
	At    time.Time
	Value *float64
}

// Chart is a line over time. The drawing is 1000 by 100 units, the origin top left, and is
// stretched to its place.
type Chart struct {
	ID, Title, Unit string
	Area, Line      string // paths
	Bad             []Box  // stretches painted as bad
	Top             string // label of the highest value; the lowest is 0
	Middle          string
	From, To        time.Time
	Last            string // the newest value in words
	Empty           bool   // nothing to draw
}

// Box is a stretch of a chart.
type Box struct{ X, Width string }

// NewChart draws points of a window, oldest first. The line breaks where the next point is
// further away than gap, or is not measured. bad tells which points are painted.
func NewChart(points []Point, from, to time.Time, gap time.Duration, bad func(float64) bool) Chart {
	c := Chart{From: from, To: to, Empty: true}
	top := 0.0
	for _, p := range points {
		if p.Value != nil {
			top, c.Empty = max(top, *p.Value), false
		}
	}
	top = niceTop(top)
	c.Top, c.Middle = number(top), number(top/2)
	x := func(t time.Time) float64 { return 1000 * float64(t.Sub(from)) / float64(max(1, to.Sub(from))) }
	var line, area strings.Builder
	for i := 0; i < len(points); {
		j := i
		for j+1 < len(points) && points[j].Value != nil && points[j+1].Value != nil && points[j+1].At.Sub(points[j].At) <= gap {
			j++
		}
		if points[i].Value != nil {
			drawRun(&line, &area, points[i:j+1], x, func(v float64) float64 { return 100 - 100*v/top }, min(to.Sub(points[j].At), gap))
		}
		i = j + 1
	}
	c.Line, c.Area = line.String(), area.String()
	var stretches [][2]float64 // from, to
	for i, p := range points {
		if bad == nil || p.Value == nil || !bad(*p.Value) {
			continue
		}
		end := p.At.Add(gap)
		if i+1 < len(points) {
			end = points[i+1].At
		}
		end = minTime(minTime(end, p.At.Add(gap)), to)
		if n := len(stretches); n > 0 && stretches[n-1][1] == x(p.At) {
			stretches[n-1][1] = x(end)
		} else {
			stretches = append(stretches, [2]float64{x(p.At), x(end)})
		}
	}
	for _, s := range stretches {
		c.Bad = append(c.Bad, Box{fmt.Sprintf("%.1f", s[0]), fmt.Sprintf("%.1f", max(2, s[1]-s[0]))})
	}
	return c
}

// drawRun draws points without a gap as steps: a value holds until the next is known. The
// last holds for the time given.
func drawRun(line, area *strings.Builder, run []Point, x func(time.Time) float64, y func(float64) float64, hold time.Duration) {
	first := x(run[0].At)
	fmt.Fprintf(line, "M%.1f %.1f", first, y(*run[0].Value))
	fmt.Fprintf(area, "M%.1f 100V%.1f", first, y(*run[0].Value))
	for _, p := range run[1:] {
		step := fmt.Sprintf("H%.1fV%.1f", x(p.At), y(*p.Value))
		line.WriteString(step)
		area.WriteString(step)
	}
	end := x(run[len(run)-1].At.Add(hold))
	fmt.Fprintf(line, "H%.1f", end)
	fmt.Fprintf(area, "H%.1fV100Z", end)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// niceTop is the next of 1, 2, 4, 5, 8 times a power of ten, at least 2.
func niceTop(v float64) float64 {
	if v <= 2 {
		return 2
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 4, 5, 8, 10} {
		if v <= m*p*1.0001 {
			return m * p
		}
	}
	return 10 * p
}

func number(v float64) string {
	if v == math.Trunc(v) && v < 1000 {
		return strconv.Itoa(int(v))
	}
	if v < 1000 {
		return short(v)
	}
	return Count(int64(v))
}
