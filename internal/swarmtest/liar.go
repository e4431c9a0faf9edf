package swarmtest

import (
	"encoding/binary"
	"strings"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// Lie is what a lying server makes of a frame that it is about to write on a stream of a
// protocol: another frame, or nil for none.
type Lie func(proto string, t wire.Type, frame []byte) []byte

// Lies has the node lie in all frames that it writes from now on.
func (x *Node) Lies(lie Lie) {
	x.Wrap(func(proto string, s wire.Stream) wire.Stream { return &tongue{s, proto, lie} })
}

// tongue is a stream of a liar. Every frame is one write.
type tongue struct {
	wire.Stream
	proto string
	lie   Lie
}

func (l *tongue) Write(p []byte) (int, error) {
	if len(p) < frameHead || len(p) != frameHead+int(binary.LittleEndian.Uint32(p)) {
		return l.Stream.Write(p)
	}
	frame := l.lie(l.proto, wire.Type(p[frameHead-1]), append([]byte(nil), p...))
	if frame == nil {
		return len(p), nil
	}
	if _, err := l.Stream.Write(frame); err != nil {
		return 0, err
	}
	return len(p), nil
}

// frameHead is the size of a frame's length and type.
const frameHead = 5

// Shifts pushes rows under positions that are off by so many.
func Shifts(by int) Lie {
	return func(proto string, t wire.Type, frame []byte) []byte {
		if proto != wire.ProtoPush || t != wire.TypeRows {
			return frame
		}
		if h, _, err := wire.ParseRows(frame[frameHead:]); err == nil && int(h.Start)+by >= 0 {
			h.Start = uint32(int(h.Start) + by)
			h.Append(frame[frameHead:frameHead])
		}
		return frame
	}
}

// Keeps computes and never pushes.
func Keeps(proto string, t wire.Type, frame []byte) []byte {
	if proto == wire.ProtoPush && t == wire.TypeRows {
		return nil
	}
	return frame
}

// Trickles pushes rows only after a while.
func Trickles(after time.Duration) Lie {
	return func(proto string, t wire.Type, frame []byte) []byte {
		if proto == wire.ProtoPush && t == wire.TypeRows {
			<-time.After(after)
		}
		return frame
	}
}

// BlamesCaller answers frames of a type with a failure that is its caller's, with so much text.
func BlamesCaller(instead wire.Type, bytes int) Lie {
	return func(proto string, t wire.Type, frame []byte) []byte {
		if proto != wire.ProtoSession || t != instead {
			return frame
		}
		return wire.AppendJSON(nil, wire.TypeFail, wire.Fail{Epoch: 1 << 20, Code: "invalid_api_key", Verdict: swarm.Caller,
			Message: "your key was revoked, see https://evil.example " + strings.Repeat("x", bytes)})
	}
}
