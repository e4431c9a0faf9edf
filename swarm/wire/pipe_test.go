package wire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// Bytes arrive in order, also far more than the window holds, and a close lets the other
// end read what is left.
func TestPipeData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		want := make([]byte, 3*pipeWindow+17)
		for i := range want {
			want[i] = byte(i * 7)
		}
		go func() {
			for p := want; len(p) > 0; {
				n, err := a.Write(p[:min(len(p), 100_003)])
				if err != nil {
					t.Error(err)
				}
				p = p[n:]
			}
			a.Close()
		}()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d of %d bytes, %v", len(got), len(want), err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write to a closed end: %v", err)
		}
	})
}

// A writer waits when the window is full, and no more memory is taken.
func TestPipeWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		if n, err := a.Write(make([]byte, pipeWindow)); n != pipeWindow || err != nil {
			t.Fatal(n, err)
		}
		var done bool
		go func() {
			a.Write([]byte("x"))
			done = true
		}()
		synctest.Wait()
		if done {
			t.Fatal("the window is not kept")
		}
		b.Read(make([]byte, 1))
		synctest.Wait()
		if !done {
			t.Fatal("a read does not make room")
		}
	})
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		begin := time.Now()
		a.SetReadDeadline(begin.Add(time.Hour))
		a.SetReadDeadline(begin.Add(time.Second)) // the last one counts
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(begin))
		}
		b.Write([]byte("x"))
		a.SetReadDeadline(time.Time{})
		if n, err := a.Read(make([]byte, 9)); n != 1 || err != nil {
			t.Errorf("read after the deadline was lifted: %d %v", n, err)
		}
		a.SetDeadline(time.Now().Add(time.Second))
		if n, err := a.Write(make([]byte, pipeWindow+1)); n != pipeWindow || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write into a full window: %d %v", n, err)
		}
		// A deadline set while somebody waits wakes it.
		b.SetReadDeadline(time.Time{})
		io.CopyN(io.Discard, b, pipeWindow)
		woken := make(chan error, 1)
		go func() { _, err := b.Read(make([]byte, 1)); woken <- err }()
		synctest.Wait()
		b.SetReadDeadline(time.Now())
		if err := <-woken; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("waiting read: %v", err)
		}
	})
}

// Reset ends both directions at once and wakes everybody.
func TestPipeReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		a.Write(make([]byte, pipeWindow))
		fails := make(chan error, 2)
		go func() { _, err := a.Write([]byte("x")); fails <- err }()
		go func() { _, err := a.Read(make([]byte, 1)); fails <- err }()
		synctest.Wait()
		b.Reset()
		for range 2 {
			if err := <-fails; !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("a call that waited: %v", err)
			}
		}
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("data is read after a reset: %v", err)
		}
	})
}
