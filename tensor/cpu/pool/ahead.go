package pool

// The memory must not rest while threads do: a decode step is as slow as the reading of its
// weights. Between products one thread normalises rows or waits for another's last tile, so
// the waiting ones ask for what the next run reads first. Whether the caller guessed right
// what that is changes no result.

const (
	// AheadMost is how many bytes of values a thread should ask for ahead at most: far less
	// than a second-level cache, far more than memory gives between two products.
	AheadMost = 256 << 10
	// AheadChunk is how many it asks for before it looks for work again: well under 0.1 µs.
	AheadChunk = 1 << 10
)

// Forecast tells for each thread what it will read first, in that order.
type Forecast [][]Read

// Read is a run of memory: chunks of AheadChunk bytes of values, and scales in step with them.
type Read struct {
	Values, Scales uintptr // addresses; the memory may be gone
	ScaleChunk     int     // bytes of scales to a chunk of values
	Chunks         int
}

// Expect makes threads that wait read by a forecast, which must not change any more; by
// none if it is nil.
func (p *Pool) Expect(f *Forecast) { p.ahead.Store(f) }

// Expected is the forecast that waiting threads read by.
func (p *Pool) Expected() *Forecast { return p.ahead.Load() }

// reader is one thread's progress through forecasts.
type reader struct {
	of      *Forecast
	run, at int
}

// read asks for the next chunk of what a thread reads first by f, and reports whether
// there was one.
func (r *reader) read(f *Forecast, thread int) bool {
	if f == nil {
		return false
	}
	if r.of != f {
		*r = reader{of: f}
	}
	for reads := (*f)[thread]; r.run < len(reads); r.run, r.at = r.run+1, 0 {
		if run := &reads[r.run]; r.at < run.Chunks {
			Fetch(run.Values+uintptr(r.at*AheadChunk), AheadChunk)
			Fetch(run.Scales+uintptr(r.at*run.ScaleChunk), run.ScaleChunk)
			r.at++
			return true
		}
	}
	return false
}
