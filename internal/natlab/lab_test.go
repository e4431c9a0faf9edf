//go:build linux

package natlab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// lab makes a laboratory, or skips with the reason.
func lab(t *testing.T) *Lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not proven: NATs and relays, since namespaces take root")
	}
	l := New(1)
	t.Cleanup(l.Close)
	return l
}

func add(t *testing.T, l *Lab, s Spec) *Host {
	t.Helper()
	h, err := l.Add(s)
	if errors.Is(err, ErrCannot) {
		t.Skipf("not proven: NATs and relays: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// listen opens a UDP socket in a host's namespace.
func (h *Host) listen(t *testing.T, addr string) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	if err := h.Do(func() error {
		a, err := net.ResolveUDPAddr("udp", addr)
		if err == nil {
			c, err = net.ListenUDP("udp", a)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// hears sends a datagram and tells whether it comes, and from where. Where it should, there is time.
func hears(t *testing.T, to, from *net.UDPConn, at string, should bool) (string, bool) {
	t.Helper()
	a, err := net.ResolveUDPAddr("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	from.WriteTo([]byte("x"), a)
	to.SetReadDeadline(time.Now().Add(map[bool]time.Duration{true: 5 * time.Second, false: 100 * time.Millisecond}[should]))
	_, seen, err := to.ReadFrom(make([]byte, 10))
	if err != nil {
		return "", false
	}
	return seen.String(), true
}

// Who is let in by which kind of box: one that was spoken to, another port of it, a stranger;
// and whether two see the same outer port.
func TestBoxes(t *testing.T) {
	l := lab(t)
	one, two := add(t, l, Spec{Name: "one", Addrs: []string{"20.0.0.1"}}), add(t, l, Spec{Name: "two", Addrs: []string{"20.0.0.2"}})
	a, b, c := one.listen(t, "20.0.0.1:1000"), one.listen(t, "20.0.0.1:2000"), two.listen(t, "20.0.0.2:1000")
	for i, k := range []struct {
		name                        string
		boxes                       []*Box
		sameHost, stranger, oneFace bool
	}{
		{"full cone", []*Box{NewBox(FullCone, "20.0.1.1", time.Minute)}, true, true, true},
		{"address-restricted", []*Box{NewBox(AddressRestricted, "20.0.1.2", time.Minute)}, true, false, true},
		{"port-restricted", []*Box{NewBox(PortRestricted, "20.0.1.3", time.Minute)}, false, false, true},
		{"symmetric", []*Box{NewBox(Symmetric, "20.0.1.4", time.Minute)}, false, false, false},
		{"double", []*Box{NewBox(PortRestricted, "100.64.0.1", time.Minute), NewBox(FullCone, "20.0.1.5", time.Minute)}, false, false, true},
		{"firewall", []*Box{NewBox(Firewall, "20.0.1.6", time.Minute)}, false, false, true},
	} {
		addr := fmt.Sprintf("192.168.%d.2", i)
		if k.name == "firewall" {
			addr = "20.0.1.6"
		}
		h := add(t, l, Spec{Name: k.name, Addrs: []string{addr}, Boxes: k.boxes})
		s := h.listen(t, addr+":500")
		outer, ok := hears(t, a, s, "20.0.0.1:1000", true)
		if !ok {
			t.Fatalf("%s: nothing gets out", k.name)
		}
		if _, ok := hears(t, s, a, outer, true); !ok {
			t.Errorf("%s: no answer gets in", k.name)
		}
		if _, ok := hears(t, s, b, outer, k.sameHost); ok != k.sameHost {
			t.Errorf("%s: another port of who was spoken to: %v", k.name, ok)
		}
		if _, ok := hears(t, s, c, outer, k.stranger); ok != k.stranger {
			t.Errorf("%s: a stranger: %v", k.name, ok)
		}
		if again, _ := hears(t, c, s, "20.0.0.2:1000", true); (again == outer) != k.oneFace {
			t.Errorf("%s: seen as %s and as %s", k.name, outer, again)
		}
	}
}

// A mapping is forgotten when it is idle, links delay, and TCP gets through boxes that lose
// packets.
func TestLinks(t *testing.T) {
	l := lab(t)
	box := NewBox(PortRestricted, "20.0.1.1", 50*time.Millisecond)
	one := add(t, l, Spec{Name: "one", Addrs: []string{"20.0.0.1"}, Delay: 10 * time.Millisecond})
	in := add(t, l, Spec{Name: "in", Addrs: []string{"192.168.1.2"}, Boxes: []*Box{box}, Delay: 10 * time.Millisecond, Loss: 0.02})
	a, s := one.listen(t, "20.0.0.1:1000"), in.listen(t, "192.168.1.2:500")
	begin := time.Now()
	outer, ok := "", false
	for try := 0; !ok && try < 10; try++ { // it may be lost
		begin = time.Now()
		outer, ok = hears(t, a, s, "20.0.0.1:1000", true)
	}
	if took := time.Since(begin); !ok || took < 20*time.Millisecond {
		t.Errorf("20 ms of delay took %v", took)
	}
	<-time.After(60 * time.Millisecond)
	if _, ok := hears(t, s, a, outer, false); ok {
		t.Error("an idle mapping lets in")
	}
	var ln net.Listener
	if err := one.Do(func() (err error) { ln, err = net.Listen("tcp", "20.0.0.1:80"); return err }); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err == nil {
			io.Copy(c, c)
			c.Close()
		}
	}()
	var c net.Conn
	if err := in.Do(func() (err error) { c, err = net.Dial("tcp", "20.0.0.1:80"); return err }); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	go c.Write(make([]byte, 200_000))
	if n, err := io.CopyN(io.Discard, c, 200_000); err != nil {
		t.Errorf("%d bytes came back: %v", n, err)
	}
}
