package p2p

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"whorl/swarm/wire"
)

// A stream of a session that begins over a relay outlives its connection: when there is a
// direct one, or when the relay dies and there is another, it goes on over that, at the byte
// where it was. Each end keeps what the other has not taken yet. protoMove carries it.
const protoMove = "/whorl/move/1"

const (
	// moveWindow is what an end keeps of what it sent, in bytes: what the far end may have to
	// be sent again, and has room for.
	moveWindow = 256 << 10
	// moveChunk is the most bytes of one frame.
	moveChunk = 64 << 10
	// moveGrace is how long a stream waits for another connection before it is lost.
	moveGrace = 10 * time.Second
	// moveAttach bounds taking it up on one.
	moveAttach = 3 * time.Second
)

// The frames: a kind, a number of 8 bytes, and for data as many bytes as that says.
const (
	moveData  = 1 + iota // so many bytes follow
	moveTaken            // so many bytes were taken by the reader, all added up
	moveEnd              // no more bytes come
	moveReset            // the stream is over
)

const moveHead = 1 + 8

// errMoveLost says that no connection was found in time.
var errMoveLost = errors.New("the connection is lost, and there is no other")

// carrier is a stream of a connection that carries a moving one for a time.
type carrier interface {
	io.ReadWriteCloser
	Reset() error
}

// moving is one end of a stream that moves from one connection to another. It is a
// wire.Stream; safe for a reader and a writer at a time.
type moving struct {
	net  string
	lost func(*moving) // is called without locks when the connection ended; it may attach another
	over func()        // gives back what the stream holds; called once

	opened bool // by this end, which takes it to other connections; set before it is used

	mu      sync.Mutex // guards all below
	wake    sync.Cond
	carried carrier // nil while there is none
	via     peer.ID // the relay that the last carrier went through; "" if none did
	turn    int     // counts carriers: who serves an earlier one must stop

	out      []byte // sent or to be sent, and not yet taken by the far end
	base     uint64 // of all that was written, where out begins
	sent     uint64 // up to where it went to this carrier
	finished bool   // nothing more is written
	endSent  bool   // and this carrier was told so

	in         []byte // has come, and was not read
	got, taken uint64 // bytes that came, and that were read
	told       uint64 // up to where the far end knows what was read
	ended      bool   // the far end has written all
	dropped    bool   // nobody reads any more

	err    error
	rd, wd deadline
	done   bool

	farewell carrier // is told that the stream is over
}

var _ wire.Stream = (*moving)(nil)

// deadline wakes who waits when it has come.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) set(t time.Time, wake func()) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.at = t; !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), wake)
	}
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newMoving(net string, lost func(*moving), over func()) *moving {
	m := &moving{net: net, lost: lost, over: over}
	m.wake.L = &m.mu
	return m
}

// Net names the prefix that the stream first came from; see wire.Net.
func (m *moving) Net() string { return m.net }

// Read takes what has come.
func (m *moving) Read(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		switch {
		case m.dropped:
			return 0, os.ErrClosed
		case len(m.in) > 0:
			n := copy(b, m.in)
			if m.in = m.in[n:]; len(m.in) == 0 {
				m.in = nil
			}
			if m.taken += uint64(n); m.owes() {
				m.wake.Broadcast()
			}
			return n, nil
		case m.ended:
			return 0, io.EOF
		case m.err != nil:
			return 0, m.err
		case m.rd.passed():
			return 0, os.ErrDeadlineExceeded
		}
		m.wake.Wait()
	}
}

// owes tells whether the far end should hear how much was read. mu is held.
func (m *moving) owes() bool {
	return m.taken-m.told >= moveWindow/4 || m.ended && m.taken > m.told
}

// Write keeps the bytes until the far end has taken them, and waits while it keeps too many.
func (m *moving) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < len(b) {
		switch {
		case m.finished:
			return n, os.ErrClosed
		case m.err != nil:
			return n, m.err
		case m.wd.passed():
			return n, os.ErrDeadlineExceeded
		}
		if room := moveWindow - len(m.out); room > 0 {
			k := min(room, len(b)-n)
			m.out = append(m.out, b[n:n+k]...)
			n += k
			m.wake.Broadcast()
			continue
		}
		m.wake.Wait()
	}
	return n, nil
}

// Close ends writing cleanly, and drops what still comes. What was written is delivered in the
// background, for a while.
func (m *moving) Close() error {
	m.mu.Lock()
	if m.finished || m.err != nil {
		m.mu.Unlock()
		return nil
	}
	m.finished, m.dropped = true, true
	m.taken, m.in = m.got, nil
	m.wake.Broadcast()
	m.mu.Unlock()
	time.AfterFunc(moveGrace, func() { m.fail(os.ErrClosed, false) })
	return nil
}

// Reset ends both directions at once; after Close it does nothing.
func (m *moving) Reset() error {
	m.mu.Lock()
	closed := m.finished
	m.mu.Unlock()
	if !closed {
		m.fail(os.ErrClosed, true)
	}
	return nil
}

// SetDeadline sets both deadlines.
func (m *moving) SetDeadline(t time.Time) error {
	m.SetReadDeadline(t)
	return m.SetWriteDeadline(t)
}

// SetReadDeadline makes reads fail from then on; the zero time never.
func (m *moving) SetReadDeadline(t time.Time) error { return m.setDeadline(&m.rd, t) }

// SetWriteDeadline makes writes fail that wait then; the zero time never.
func (m *moving) SetWriteDeadline(t time.Time) error { return m.setDeadline(&m.wd, t) }

func (m *moving) setDeadline(d *deadline, t time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.set(t, func() {
		m.mu.Lock()
		m.wake.Broadcast()
		m.mu.Unlock()
	})
	m.wake.Broadcast()
	return nil
}

// fail ends the stream, and tells the far end if it can.
func (m *moving) fail(err error, tell bool) {
	m.mu.Lock()
	if m.done {
		m.mu.Unlock()
		return
	}
	m.done = true
	if m.err == nil {
		m.err = err
	}
	m.rd.set(time.Time{}, nil)
	m.wd.set(time.Time{}, nil)
	at := m.carried
	m.carried = nil
	m.turn++
	m.out = nil
	if tell {
		m.farewell = at // send says it after what it is writing
	}
	m.wake.Broadcast()
	m.mu.Unlock()
	switch {
	case at == nil:
	case tell:
		time.AfterFunc(moveAttach, func() { at.Reset() })
	default:
		at.Close()
	}
	m.over()
}

// freeze leaves the carrier, so that what has come is final, and says how much that is.
func (m *moving) freeze() (got uint64, turn int, ok bool) {
	m.mu.Lock()
	if m.done {
		m.mu.Unlock()
		return 0, 0, false
	}
	at := m.carried
	m.carried = nil
	m.turn++ // nothing is taken from it any more
	got, turn = m.got, m.turn
	m.wake.Broadcast()
	m.mu.Unlock()
	if at != nil { // without the lock: it may have to wait for a connection that is jammed
		at.Reset()
	}
	return got, turn, true
}

// attach goes on over a carrier, whose far end has so many bytes of ours. turn is that of
// freeze: false if another came between, or the far end claims what cannot be.
func (m *moving) attach(c carrier, turn int, theirs uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done || turn != m.turn || theirs < m.base || theirs > m.base+uint64(len(m.out)) {
		return false
	}
	m.carried, m.sent, m.endSent, m.told = c, theirs, false, 0
	go m.send(c, turn)
	go m.receive(c, turn)
	return true
}

// detach notes that a carrier has ended.
func (m *moving) detach(c carrier, turn int) {
	m.mu.Lock()
	if turn != m.turn || m.done { // whoever took its place has seen to it
		m.mu.Unlock()
		return
	}
	m.carried = nil
	m.turn++
	m.wake.Broadcast()
	m.mu.Unlock()
	c.Reset()
	m.lost(m)
}

// settled tells whether both ends have said all they had to say, and know that the other has
// it. mu is held.
func (m *moving) settled() bool {
	return m.dropped && m.finished && m.endSent && m.ended && len(m.out) == 0
}

// send writes what there is to a carrier, until another takes its place.
func (m *moving) send(c carrier, turn int) {
	frame := make([]byte, 0, 2*moveHead+moveChunk)
	for {
		m.mu.Lock()
		frame = frame[:0]
		for turn == m.turn {
			if m.owes() || m.dropped && m.got > m.told {
				frame = appendMove(frame, moveTaken, m.taken)
				m.told = m.taken
			}
			if ready := m.out[m.sent-m.base:]; len(ready) > 0 {
				n := min(len(ready), moveChunk)
				frame = append(appendMove(frame, moveData, uint64(n)), ready[:n]...)
				m.sent += uint64(n)
			} else if m.finished && !m.endSent {
				frame = appendMove(frame, moveEnd, m.sent)
				m.endSent = true
			}
			if len(frame) > 0 {
				break
			}
			m.wake.Wait()
		}
		ended, bye := turn != m.turn, m.farewell == c
		m.mu.Unlock()
		if ended {
			if bye {
				c.Write(appendMove(frame[:0], moveReset, 0)) // the far end closes, or fail's timer does
			}
			return
		}
		if _, err := c.Write(frame); err != nil {
			m.detach(c, turn)
			return
		}
		m.mu.Lock()
		over := turn == m.turn && m.settled()
		m.mu.Unlock()
		if over {
			m.fail(io.EOF, false)
			return
		}
	}
}

func appendMove(frame []byte, kind byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(frame, kind), n)
}

// receive takes what comes from a carrier, until another takes its place.
func (m *moving) receive(c carrier, turn int) {
	var head [moveHead]byte
	buf := make([]byte, moveChunk)
	for {
		if _, err := io.ReadFull(c, head[:]); err != nil {
			m.detach(c, turn)
			return
		}
		kind, n := head[0], binary.BigEndian.Uint64(head[1:])
		data := buf[:0]
		if kind == moveData {
			if n > moveChunk {
				m.fail(fmt.Errorf("a frame of %d bytes, at most %d", n, moveChunk), true)
				return
			}
			data = buf[:n]
			if _, err := io.ReadFull(c, data); err != nil {
				m.detach(c, turn)
				return
			}
		}
		if stop, err := m.take(turn, kind, n, data); err != nil {
			m.fail(err, true)
			return
		} else if stop {
			return
		}
	}
}

// take takes in one frame; stop says that the carrier has no more to say to this stream. The
// far end may not send more than there is room for.
func (m *moving) take(turn int, kind byte, n uint64, data []byte) (stop bool, err error) {
	m.mu.Lock()
	if turn != m.turn {
		m.mu.Unlock()
		return true, nil
	}
	over := false
	switch kind {
	case moveData:
		switch {
		case len(m.in)+len(data) > moveWindow || m.ended:
			err = errors.New("the far end sends more than it may")
		case m.dropped:
			m.got += n
			m.taken = m.got
		default:
			m.in = append(m.in, data...)
			m.got += n
		}
	case moveTaken:
		if n < m.base || n > m.sent {
			if n > m.sent {
				err = errors.New("the far end has taken more than was sent")
			}
			break
		}
		m.out, m.base = m.out[n-m.base:], n
		if len(m.out) == 0 {
			m.out = nil
		}
	case moveEnd:
		if n != m.got {
			err = fmt.Errorf("the far end has sent %d bytes, and %d came", n, m.got)
		}
		m.ended = true
	case moveReset:
		over = true
	default:
		err = fmt.Errorf("a frame of kind %d", kind)
	}
	over = over || err == nil && m.settled()
	m.wake.Broadcast()
	m.mu.Unlock()
	if over {
		m.fail(io.ErrUnexpectedEOF, false)
		return true, nil
	}
	return false, err
}
