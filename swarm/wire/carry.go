package wire

import (
	"io"
	"time"
)

// Carry takes what comes out of one stream to another, each piece after its delay, and at last
// the end. Tests and benchmarks put it between nodes that are closer than those it is about. It
// returns when from has ended.
func Carry(to, from Stream, delay func() time.Duration) {
	type piece struct {
		at   time.Time
		data []byte
		end  error
	}
	way := make(chan piece, 1<<16)
	go func() {
		defer close(way)
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			way <- piece{time.Now().Add(delay()), append([]byte(nil), buf[:n]...), err}
			if err != nil {
				return
			}
		}
	}()
	for p := range way {
		if d := time.Until(p.at); d > 0 {
			<-time.After(d)
		}
		if len(p.data) > 0 {
			if _, err := to.Write(p.data); err != nil {
				from.Reset()
			}
		}
		switch {
		case p.end == io.EOF:
			to.Close()
		case p.end != nil:
			to.Reset()
		}
	}
}
