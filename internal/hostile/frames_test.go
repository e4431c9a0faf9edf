package hostile

import (
	"io"
	"testing"
	"time"

	"whorl/swarm/wire"
)

// A stranger that announces rows on every protocol gets nothing held for them, and users
// keep their text.
func TestAnnouncedRows(t *testing.T) {
	w := New(t, Options{})
	s := w.Stranger("")
	n := w.Honest(func() {
		for _, proto := range []string{wire.ProtoSession, wire.ProtoPush, wire.ProtoDirectory} {
			c, err := s.Open(w.Servers[0], proto)
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(time.Second))
			c.Write(wire.AppendHeader(nil, wire.TypeRows, wire.MaxRows))
			c.Write(make([]byte, 1<<10))
			io.Copy(io.Discard, c)
			c.Reset()
		}
	})
	t.Logf("%d honest answers", n)
}
