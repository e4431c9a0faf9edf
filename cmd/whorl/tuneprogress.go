package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"

	"whorl/client/train"
	"whorl/swarm"
)

// tuneProgress tells how far training is: on a terminal in one line that changes, elsewhere in a
// line every few seconds.
type tuneProgress struct {
	to    io.Writer
	live  bool
	began time.Time
	told  time.Time
	spent time.Duration // in steps
	rows  int
	first int // steps made before
	steps int
	last  time.Time // the end of the step before, or of what came between
	width int       // of the line on the screen
	ended bool

	mu   sync.Mutex // guards hops
	hops []swarm.Hop
}

// tuneLineEvery is the time between lines where nobody watches.
const tuneLineEvery = 5 * time.Second

func newTuneProgress(w *world) *tuneProgress {
	f, ok := w.err.(*os.File)
	return &tuneProgress{to: w.err, live: ok && isatty.IsTerminal(f.Fd())}
}

func (p *tuneProgress) begin(done, steps, epochs int) {
	p.began, p.last, p.first, p.steps = time.Now(), time.Now(), done, steps
}

// chain hears who computes.
func (p *tuneProgress) chain(hops []swarm.Hop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hops = hops
}

// step tells of a step.
func (p *tuneProgress) step(r train.Report) {
	now := time.Now()
	p.spent += now.Sub(p.last)
	p.last = now
	p.rows += r.Rows
	if !p.live && now.Sub(p.told) < tuneLineEvery && r.Step < p.steps {
		return
	}
	p.told = now
	p.mu.Lock()
	chain := chainText(p.hops)
	p.mu.Unlock()
	left := p.spent / time.Duration(r.Step-p.first) * time.Duration(p.steps-r.Step)
	p.show(fmt.Sprintf("step %d/%d  epoch %d  loss %.4f  lr %.2g  %.0f tok/s  %v left  %s",
		r.Step, p.steps, r.Epoch, r.Mean(), r.Rate, float64(p.rows)/max(p.spent.Seconds(), 1e-9), left.Round(time.Second), chain))
}

func (p *tuneProgress) evaluating(done, all int) {
	p.last = time.Now()
	if p.live {
		p.show(fmt.Sprintf("held out: %d of %d", done, all))
	}
}

// show puts a line where the last one was.
func (p *tuneProgress) show(text string) {
	if !p.live {
		fmt.Fprintln(p.to, text)
		return
	}
	pad := strings.Repeat(" ", max(0, p.width-len(text)))
	fmt.Fprintf(p.to, "\r%s%s", text, pad)
	p.width = len(text)
}

// line writes a line that stays.
func (p *tuneProgress) line(format string, a ...any) {
	p.end()
	fmt.Fprintf(p.to, format+"\n", a...)
	p.last = time.Now()
}

// end leaves the line that changes.
func (p *tuneProgress) end() {
	if p.live && p.width > 0 {
		fmt.Fprintln(p.to)
	}
	p.width = 0
}

// totals are the time since the beginning, and the speed of steps in tokens a second.
func (p *tuneProgress) totals() (seconds, speed float64) {
	if p.spent > 0 {
		speed = float64(p.rows) / p.spent.Seconds()
	}
	return time.Since(p.began).Seconds(), speed
}
