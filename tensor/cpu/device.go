package cpu

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"whorl/tensor"
	"whorl/tensor/cpu/pool"
)

// Arithmetic is the name of the rules by which this device rounds.
const Arithmetic = "exact1"

// Options says how to open the device.
type Options struct {
	// Tier is the set of kernels: "auto" or "" for the best one, or a name of [Tiers].
	Tier string
	// Threads is how many cores to use at most, the caller's included; 0 means as many as
	// the Go scheduler may use.
	Threads int
}

// maxThreads bounds Options.Threads: beyond it a typing error is likelier than a machine.
const maxThreads = 1024

// Device is the processor. It implements [tensor.Device].
type Device struct {
	tier string
	k    *kernels
	pool *pool.Pool

	waiting atomic.Int32 // ops that another one holds up

	mu      sync.Mutex // held by every op: guards all below and the pool
	closed  bool
	scratch []scratch // per thread
	slab    *slab     // where small weights go
	before  *forecast // of the last products
	hasty   bool      // tiles are taken over without patience, for tests
	experts expertsOp

	products []productOp // by slots of the pool
	quant    quantOp
	runs     runsOp
	norm     normOp
	point    pointOp
	attend   attendOp

	attendBack attendBackSums
}

var _ tensor.Device = (*Device)(nil)

// scratch is what one thread works in.
type scratch struct {
	acc, gate []float32 // tiles of products: [rowPanel][maxPanelCols]
	tile      tilePlace // whose products acc and gate hold
	panels    panels
	quant     quantArgs
	int8      int8Args
	nf4       nf4Args
	attention attendScratch
	back      backScratch
	attBack   attendBackScratch
}

// tiers lists what this build has and this processor can, best first.
func tiers() []namedTier { return append(archTiers(), namedTier{"generic", &generic}) }

type namedTier struct {
	name string
	k    *kernels
}

// Tiers names the tiers this build and this processor have, best first. "generic" is
// always the last.
func Tiers() []string {
	var names []string
	for _, t := range tiers() {
		names = append(names, t.name)
	}
	return names
}

// Open starts a device. The error names a tier this machine lacks or a bad thread count.
func Open(o Options) (*Device, error) {
	if o.Threads < 0 || o.Threads > maxThreads {
		return nil, fmt.Errorf("cpu device: %d threads: use 1 to %d, or 0 for all cores", o.Threads, maxThreads)
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	for _, t := range tiers() {
		if t.name == o.Tier || o.Tier == "" || o.Tier == "auto" {
			return open1(t, o.Threads), nil
		}
	}
	return nil, fmt.Errorf("cpu device: no tier %q in this build on this processor: use auto or one of %s",
		o.Tier, strings.Join(Tiers(), ", "))
}

func open1(t namedTier, threads int) *Device {
	d := &Device{tier: t.name, k: t.k, pool: pool.New(threads), scratch: make([]scratch, threads), products: make([]productOp, threads)}
	for i := range d.scratch {
		d.scratch[i] = scratch{
			acc:    make([]float32, rowPanel*maxPanelCols),
			gate:   make([]float32, rowPanel*maxPanelCols),
			panels: newPanels(),
		}
	}
	for i := range d.products {
		d.products[i].d = d
	}
	d.quant.d, d.norm.d, d.attend.d, d.experts.d = d, d, d, d
	return d
}

// Info names the device.
func (d *Device) Info() tensor.Info {
	return tensor.Info{Name: "cpu", Tier: d.tier, Arithmetic: Arithmetic, Threads: d.pool.Threads()}
}

// Sync has nothing to wait for: ops are done when they return.
func (d *Device) Sync() error { return nil }

// Close ends the threads. Closing twice is allowed.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed, d.slab = true, nil
		d.pool.Close()
	}
	return nil
}

// begin starts an op: it takes the lock that end gives back.
func (d *Device) begin() {
	if !d.mu.TryLock() {
		d.waiting.Add(1)
		d.mu.Lock()
		d.waiting.Add(-1)
	}
	if d.closed {
		d.mu.Unlock()
		panic("cpu device: op after Close")
	}
}

// end lets who waits be next: a goroutine that queues op after op, as a step does, would get the
// lock again before the other has woken up, until that has waited for a millisecond.
func (d *Device) end() {
	d.mu.Unlock()
	if d.waiting.Load() > 0 {
		runtime.Gosched()
	}
}

// bug panics because the operands of an op do not fit: only the caller's bug can cause it.
func bug(format string, args ...any) {
	panic("cpu device: " + fmt.Sprintf(format, args...))
}
