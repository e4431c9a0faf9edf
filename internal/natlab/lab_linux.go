package natlab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Lab joins hosts. Close ends it when all processes in its namespaces have ended.
type Lab struct {
	mu    sync.Mutex // guards all below
	at    map[netip.Addr]*Host
	rng   *rand.Rand
	wires map[[2]*Host]chan timed
	hosts []*Host

	live context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
}

type timed struct {
	at time.Time
	b  []byte
}

// Spec is a host: its addresses, and the boxes between it and the world, the nearest first.
type Spec struct {
	Name  string
	Addrs []string // one of each family at most
	Boxes []*Box
	Delay time.Duration // one way, to the middle of the world
	Loss  float64       // share of its packets that are lost, each way
	// Up and Down are how fast its line is, in bytes a second; 0 for any speed.
	Up, Down float64
}

// lineQueue is how long a packet waits for a slow line before it is lost.
const lineQueue = 200 * time.Millisecond

// Host is a machine.
type Host struct {
	Spec
	lab   *Lab
	tun   *os.File
	tasks chan func() // run in its namespace
	ns    string      // name of a namespace that somebody else made; "" for one of the laboratory
	// Down cuts it off while it is true.
	mu   sync.Mutex
	down bool
	side int // guarded by Lab.mu

	// When its line is free again, each way; guarded by Lab.mu.
	upFree, downFree time.Time
}

// line is when a packet has passed a line of some speed that is free again at free; false if it
// would wait too long.
func line(at time.Time, size int, speed float64, free *time.Time) (time.Time, bool) {
	if speed == 0 {
		return at, true
	}
	if free.Before(at) {
		*free = at
	}
	if free.Sub(at) > lineQueue {
		return at, false
	}
	*free = free.Add(time.Duration(float64(size) / speed * float64(time.Second)))
	return *free, true
}

// New makes a laboratory without hosts.
func New(seed uint64) *Lab {
	live, stop := context.WithCancel(context.Background())
	return &Lab{at: map[netip.Addr]*Host{}, wires: map[[2]*Host]chan timed{}, rng: rand.New(rand.NewPCG(seed, 0)), live: live, stop: stop}
}

// ErrCannot says that this machine makes no namespaces or TUN devices for us.
var ErrCannot = errors.New("no network namespaces here: they take root, and /dev/net/tun")

// Add makes a host.
func (l *Lab) Add(s Spec) (*Host, error) {
	h := &Host{Spec: s, lab: l, tasks: make(chan func())}
	made := make(chan error, 1)
	go h.live(made)
	if err := <-made; err != nil {
		return nil, fmt.Errorf("host %s: %w", s.Name, err)
	}
	l.mu.Lock()
	l.hosts = append(l.hosts, h)
	for _, a := range h.public() {
		l.at[a] = h
	}
	l.mu.Unlock()
	l.wg.Go(h.send)
	return h, nil
}

// public are the addresses under which the world knows the host.
func (h *Host) public() []netip.Addr {
	if n := len(h.Boxes); n > 0 && h.Boxes[n-1].kind != Firewall {
		return []netip.Addr{h.Boxes[n-1].Addr()}
	}
	out := make([]netip.Addr, len(h.Addrs))
	for i, a := range h.Addrs {
		out[i] = netip.MustParseAddr(a)
	}
	return out
}

// live makes the namespace on a thread of its own, which ends with it.
func (h *Host) live(made chan<- error) {
	runtime.LockOSThread() // never unlocked: nobody else may get a thread in this namespace
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		made <- fmt.Errorf("%w (%w)", ErrCannot, err)
		return
	}
	if err := h.configure(); err != nil {
		made <- err
		return
	}
	made <- nil
	for f := range h.tasks {
		f()
	}
}

// configure makes the only link, and all routes through it.
func (h *Host) configure() error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrCannot, err)
	}
	req, err := unix.NewIfreq("eth0")
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("%w (%w)", ErrCannot, err)
	}
	h.tun = os.NewFile(uintptr(fd), "tun")
	steps := [][]string{{"link", "set", "lo", "up"}, {"link", "set", "eth0", "mtu", "1500", "up"}}
	for _, a := range h.Addrs {
		steps = append(steps, addressSteps("add", netip.MustParseAddr(a))...)
	}
	for _, s := range steps {
		if out, err := exec.Command("ip", s...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", s, err, out)
		}
	}
	return nil
}

func addressSteps(do string, a netip.Addr) [][]string {
	if a.Is4() {
		return [][]string{{"addr", do, a.String() + "/32", "dev", "eth0"}, {"route", "replace", "default", "dev", "eth0", "src", a.String()}}
	}
	return [][]string{{"addr", do, a.String() + "/128", "dev", "eth0", "nodad"}, {"-6", "route", "replace", "default", "dev", "eth0", "src", a.String()}}
}

// Do runs f in the host's namespace. What f starts stays there.
func (h *Host) Do(f func() error) error {
	if h.ns != "" {
		return f() // which starts what it starts there by ip netns
	}
	done := make(chan error, 1)
	h.tasks <- func() { done <- f() }
	return <-done
}

// Cut takes the host off the net, or puts it back.
func (h *Host) Cut(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
}

// Slow changes how long the host's packets take to the middle of the world, and how many are lost.
func (h *Host) Slow(delay time.Duration, loss float64) {
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	h.Delay, h.Loss = delay, loss
}

// Split cuts the world in two: these hosts, and all others. With none it is whole again.
func (l *Lab) Split(hosts ...*Host) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.hosts {
		h.side = 0
		if slices.Contains(hosts, h) {
			h.side = 1
		}
	}
}

// Move gives the host another address, as to a laptop that is carried elsewhere. It has no box
// with translation.
func (h *Host) Move(to string) error {
	from, next := netip.MustParseAddr(h.Addrs[0]), netip.MustParseAddr(to)
	err := h.Do(func() error {
		steps := append(addressSteps("add", next), []string{"addr", "del", h.Addrs[0] + "/32", "dev", "eth0"})
		for _, s := range steps {
			if out, err := exec.Command("ip", s...).CombinedOutput(); err != nil {
				return fmt.Errorf("ip %v: %w: %s", s, err, out)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	delete(h.lab.at, from)
	h.lab.at[next] = h
	h.Addrs[0] = to
	return nil
}

// send passes on what the host sends.
func (h *Host) send() {
	buf := make([]byte, 2048)
	for {
		n, err := h.tun.Read(buf)
		if err != nil {
			return
		}
		p, ok := parse(slices.Clone(buf[:n]))
		if !ok || h.isDown() {
			continue
		}
		now := time.Now()
		for _, b := range h.Boxes {
			if ok = ok && b.out(p, now); !ok {
				break
			}
		}
		if ok {
			h.lab.route(h, p, now)
		}
	}
}

func (h *Host) isDown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

// route sends a packet across the world.
func (l *Lab) route(from *Host, p packet, now time.Time) {
	l.mu.Lock()
	to := l.at[p.dst().Addr()]
	lost := to == nil || from.side != to.side || l.rng.Float64() < from.Loss || l.rng.Float64() < to.Loss
	at := now
	if !lost {
		var up, down bool
		at, up = line(at, len(p.b), from.Up, &from.upFree)
		at, down = line(at.Add(from.Delay+to.Delay), len(p.b), to.Down, &to.downFree)
		lost = !up || !down
	}
	var wire chan timed
	if !lost {
		key := [2]*Host{from, to}
		if wire = l.wires[key]; wire == nil && l.live.Err() == nil {
			wire = make(chan timed, 4096)
			l.wires[key] = wire
			l.wg.Go(func() { l.carry(wire, to) })
		}
	}
	l.mu.Unlock()
	if lost {
		return
	}
	select {
	case wire <- timed{at, p.b}:
	default: // a full queue loses
	}
}

// carry delivers packets of one link when their time has come.
func (l *Lab) carry(wire <-chan timed, to *Host) {
	clock := newClock()
	defer clock.Close()
	for {
		select {
		case <-l.live.Done():
			return
		case t := <-wire:
			clock.until(t.at)
			to.receive(t.b)
		}
	}
}

// clock is a timer of the system's, which ends to the microsecond: Go's own wait for whole
// milliseconds.
type clock struct {
	*os.File
	fd int // File.Fd would have reads keep a thread
}

// newClock makes one; where the system has none to give, until waits as Go does.
func newClock() clock {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return clock{}
	}
	return clock{os.NewFile(uintptr(fd), "timer"), fd}
}

// until waits for a time.
func (c clock) until(at time.Time) {
	d := time.Until(at)
	if d <= 0 {
		return
	}
	if c.File != nil {
		var spent [8]byte
		err := unix.TimerfdSettime(c.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
		if err == nil {
			if _, err = c.Read(spent[:]); err == nil {
				return
			}
		}
	}
	time.Sleep(time.Until(at))
}

// receive lets a packet through the host's boxes, the outermost first.
func (h *Host) receive(b []byte) {
	p, ok := parse(b)
	if !ok || h.isDown() {
		return
	}
	now := time.Now()
	for _, box := range slices.Backward(h.Boxes) {
		if !box.in(p, now) {
			return
		}
	}
	h.tun.Write(p.b)
}

// Close ends the laboratory.
func (l *Lab) Close() {
	l.stop()
	l.mu.Lock()
	hosts := l.hosts
	l.hosts = nil
	l.mu.Unlock()
	for _, h := range hosts {
		h.tun.Close()
		close(h.tasks)
	}
	l.wg.Wait()
}
