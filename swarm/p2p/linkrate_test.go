package p2p

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// What a node says of its link: the second of what was measured, so that one liar decides
// nothing; peers on the internet before those of the site; nothing that is old.
func TestLinks(t *testing.T) {
	up := func(f float64) swarm.Link { return swarm.Link{Up: f, Down: 10 * f} }
	for _, c := range []struct {
		name string
		add  func(links)
		want swarm.Link
		ok   bool
	}{
		{"nothing", func(links) {}, swarm.Link{}, false},
		{"asked in vain", func(l links) { l.try("a", day) }, swarm.Link{}, false},
		{"one", func(l links) { l.add("a", up(5), public, day) }, up(5), true},
		{"the second", func(l links) {
			l.add("a", up(5), public, day)
			l.add("b", up(9), public, day)
			l.add("c", up(1e9), public, day)
		}, up(9), true},
		{"the internet first", func(l links) { l.add("a", up(5), public, day); l.add("b", up(900), private, day) }, up(5), true},
		{"old", func(l links) { l.add("a", up(5), public, day.Add(-linkTTL)) }, swarm.Link{}, false},
		{"again at once", func(l links) { l.add("a", up(10), public, day); l.add("a", up(20), public, day) }, up(13), true},
		{"again after a while", func(l links) { l.add("a", up(10), public, day.Add(-linkHalf)); l.add("a", up(20), public, day) }, up(15), true},
		{"again after long", func(l links) { l.add("a", up(10), public, day.Add(-linkTTL)); l.add("a", up(20), public, day) }, up(20), true},
	} {
		l := links{}
		c.add(l)
		if got, ok := l.all(day); fmt.Sprint(got) != fmt.Sprint(c.want) || ok != c.ok {
			t.Errorf("%s: %+v %t, want %+v", c.name, got, ok, c.want)
		}
	}
	l := links{}
	for i := range 3 * maxLinks {
		l.try(peer.ID(fmt.Sprint(i)), day.Add(time.Duration(i)*time.Second))
	}
	if len(l) > maxLinks+1 {
		t.Errorf("%d pairs are remembered", len(l))
	}
}

// Whom a node measures with: those far away first, nobody twice within an hour, and nobody
// once there are enough.
func TestNextLink(t *testing.T) {
	peers, at := []peer.ID{"a", "b", "c", "d", "e"}, func(p peer.ID) zone {
		if p == "c" || p == "d" {
			return public
		}
		return private
	}
	l := links{}
	var order string
	for range 4 {
		p := l.next(peers, at, day)
		order += string(p) + " "
		l.try(p, day)
		if p != "d" { // which refuses
			l.add(p, swarm.Link{Up: 1, Down: 1}, at(p), day)
		}
	}
	if p := l.next(peers, at, day); order != "c d a b " || p != "" {
		t.Errorf("%sand %q", order, p)
	}
	if p := l.next(peers, at, day.Add(linkEvery)); p != "d" {
		t.Errorf("an hour later %q", p)
	}
}

// slowLine is one way of a line in virtual time: so many bytes a second, the first of them at half that
// speed, as connections begin, and each comes after a delay.
type slowLine struct {
	bytes chan []byte
	left  []byte // read in part
	speed float64
	delay time.Duration
	sent  int
	free  time.Time // when it can take more
}

func (l *slowLine) Write(b []byte) (int, error) {
	speed := l.speed
	if l.sent += len(b); l.sent < 32<<10 {
		speed /= 2
	}
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(len(b)) / speed * float64(time.Second)))
	time.Sleep(time.Until(l.free))
	c := bytes.Clone(b)
	time.AfterFunc(l.delay, func() { l.bytes <- c })
	return len(b), nil
}

func (l *slowLine) Read(b []byte) (int, error) {
	if len(l.left) == 0 {
		l.left = <-l.bytes
		if l.left == nil {
			return 0, io.EOF
		}
	}
	n := copy(b, l.left)
	l.left = l.left[n:]
	return n, nil
}

// What is found out about a line is what it carries, each way, be it slow or fast, near or far. Real
// lines are in TestNetworkRate of internal/natlab.
func TestRatesOfALine(t *testing.T) {
	const mbit = 1e6 / 8
	for _, c := range []struct {
		up, down float64
		delay    time.Duration
	}{{10 * mbit, 40 * mbit, 5 * time.Millisecond}, {1 * mbit, 8 * mbit, 80 * time.Millisecond}, {900 * mbit, 900 * mbit, time.Millisecond}, {20 * mbit, 2 * mbit, 0}} {
		synctest.Test(t, func(t *testing.T) {
			up, down := &slowLine{bytes: make(chan []byte), speed: c.up, delay: c.delay}, &slowLine{bytes: make(chan []byte), speed: c.down, delay: c.delay}
			type end struct {
				io.Reader
				io.Writer
			}
			over := make(chan error)
			go func() { over <- answerRates(end{up, down}) }()
			link, err := askRates(end{down, up})
			close(up.bytes)
			if other := <-over; err != nil || other != nil {
				t.Fatal(err, other)
			}
			if math.Abs(link.Up/c.up-1) > 0.02 || math.Abs(link.Down/c.down-1) > 0.02 {
				t.Errorf("%.2f Mbit/s up and %.2f down are taken for %v", c.up/mbit, c.down/mbit, link)
			}
		})
	}
}

// Two nodes measure what is between them, strangers are refused, and so is whoever asks too often.
func TestMeasureLink(t *testing.T) {
	a, b, stranger := newHost(t, Config{}), newHost(t, Config{}), newHost(t, Config{})
	befriend(a, b)
	meet(t, a, b)
	meet(t, stranger, b)
	link, err := a.measureLink(t.Context(), b.h.ID())
	if err != nil || link.Up <= 0 || link.Down <= 0 {
		t.Errorf("%v %v", link, err)
	}
	if _, err := a.measureLink(t.Context(), b.h.ID()); err == nil {
		t.Error("a second measurement at once is answered")
	}
	b.mu.Lock()
	b.rateTurns, b.rateAsked = newRateTurns(), map[peer.ID]time.Time{}
	b.mu.Unlock()
	if _, err := stranger.measureLink(t.Context(), b.h.ID()); err == nil {
		t.Error("a stranger is answered")
	}
	await(t, "the far end has done with them", func() bool { return !b.probing() })
	a.measureNext(t.Context())
	if one, ok := a.Link(); !ok || one.Up == 0 {
		t.Errorf("what is known of the link: %v, %v", one, ok)
	}
}

// Nothing is measured while a stream runs for users, on either side, and what is being measured
// ends when one begins.
func TestMeasurementsYield(t *testing.T) {
	a, b := newHost(t, Config{}), newHost(t, Config{})
	befriend(a, b)
	meet(t, a, b)
	b.Handle(wire.ProtoSession, func(_ context.Context, _ swarm.PeerID, s wire.Stream) { io.Copy(io.Discard, s) })
	stopped := make(chan struct{})
	over := a.probe(func() { close(stopped) })
	s, err := a.Dial(t.Context(), b.ID(), wire.ProtoSession)
	if err != nil {
		t.Fatal(err)
	}
	<-stopped
	over()
	s.Write([]byte("x"))
	await(t, "both have something to do", func() bool { return a.busy() && b.busy() })
	if a.measureNext(t.Context()); len(a.links) > 0 {
		t.Error("a node that has something to do measures")
	}
	if _, err := a.measureLink(t.Context(), b.h.ID()); err == nil {
		t.Error("a node that has something to do takes part")
	}
	s.Reset()
	await(t, "neither has any more", func() bool { return !a.busy() && !b.busy() })
	if _, err := a.measureLink(t.Context(), b.h.ID()); err != nil {
		t.Error(err)
	}
}

func FuzzRate(f *testing.F) {
	f.Add(binary.BigEndian.AppendUint32([]byte{rateSend}, rateFirst))
	f.Add(binary.BigEndian.AppendUint32([]byte{rateTake}, 1<<31))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		if kind, size, err := readRateRequest(bytes.NewReader(b)); err == nil && (kind != rateSend && kind != rateTake || size < rateFirst || size > rateMost) {
			t.Errorf("kind %d, %d bytes", kind, size)
		}
		if took, err := readRateTaken(bytes.NewReader(b)); err == nil && (took < 0 || took > rateTime || perSecond(rateMost, took) <= 0) {
			t.Errorf("took %v", took)
		}
	})
}
