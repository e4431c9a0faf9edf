package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"whorl/swarm"
)

// Version of the protocols. It stands in the first frame of every stream and in every
// record, and a peer with another one is refused by name (DecodeFirst). What comes later is
// a feature, not a version: see swarm.Features.
const Version = 2

// Features are those that this node has.
const Features swarm.Features = 0

// Protocol ids of the streams. They tell no version: a peer that could not be spoken to at
// all could not be told why.
const (
	ProtoSession   = "/whorl/session"
	ProtoPush      = "/whorl/push"
	ProtoDirectory = "/whorl/directory"
)

// Limits on what a peer may send.
const (
	MaxFrame   = 32 << 20 // bytes of one frame: a chunk of rows must fit
	MaxControl = 1 << 20  // bytes of a frame that carries no rows
	headerSize = 5
)

// Stream is a reliable two-way byte stream between two nodes. Reset ends both directions
// at once and makes pending reads and writes of both ends fail; Close ends writing
// cleanly and releases the stream.
type Stream interface {
	io.ReadWriteCloser
	Reset() error
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Type is the kind of a frame.
type Type uint8

// The frame types. Zero is none.
const (
	TypeOpen    Type = iota + 1 // JSON Open
	TypeAccept                  // JSON Status
	TypeCommit                  // empty
	TypeRows                    // RowsHeader + payload
	TypeDone                    // Done, 16 bytes
	TypeJournal                 // RowsHeader + payload
	TypeRoute                   // JSON Route
	TypeAsk                     // empty
	TypeStatus                  // JSON Status
	TypeFail                    // JSON Fail
	TypeHello                   // JSON Hello, first on a push stream
	TypePull                    // JSON, directory
	TypeRecords                 // JSON, directory
	numTypes
)

// ErrFrame marks bytes that are no frame of this protocol.
var ErrFrame = errors.New("bad frame")

// limit is the largest payload a type may have.
func (t Type) limit() int {
	switch t {
	case TypeRows, TypeJournal:
		return MaxFrame
	case TypeCommit, TypeAsk:
		return 0
	case TypeDone:
		return DoneSize
	case TypeRecords:
		return 16 << 20
	default:
		return MaxControl
	}
}

// Reader reads frames from one stream. Not for concurrent use.
type Reader struct {
	r   io.Reader
	hdr [headerSize]byte
	buf []byte
}

// NewReader reads frames from r, which should be buffered if it is a socket.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Next reads one frame. The payload is valid until the next call. A clean end of the
// stream between frames is io.EOF; inside a frame it is io.ErrUnexpectedEOF.
func (r *Reader) Next() (Type, []byte, error) {
	if _, err := io.ReadFull(r.r, r.hdr[:]); err != nil {
		return 0, nil, err
	}
	size, t := binary.LittleEndian.Uint32(r.hdr[:4]), Type(r.hdr[4])
	if t == 0 || t >= numTypes {
		return 0, nil, fmt.Errorf("%w: unknown type %d", ErrFrame, t)
	}
	if int64(size) > int64(t.limit()) {
		return 0, nil, fmt.Errorf("%w: type %d with %d bytes, at most %d", ErrFrame, t, size, t.limit())
	}
	n := int(size)
	if err := r.fill(n); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return t, r.buf[:n], nil
}

// fill reads n bytes into the buffer, growing it as bytes arrive: a peer that announces
// much and sends little costs little.
func (r *Reader) fill(n int) error {
	const piece = 1 << 20
	for have := 0; have < n; {
		want := min(n, max(2*have, piece, cap(r.buf)))
		if cap(r.buf) < want {
			grown := make([]byte, want)
			copy(grown, r.buf[:have])
			r.buf = grown
		}
		r.buf = r.buf[:want]
		if _, err := io.ReadFull(r.r, r.buf[have:want]); err != nil {
			return err
		}
		have = want
	}
	return nil
}

// AppendFrame appends a frame with the given payload parts to dst.
func AppendFrame(dst []byte, t Type, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	dst = AppendHeader(dst, t, n)
	for _, p := range parts {
		dst = append(dst, p...)
	}
	return dst
}

// AppendHeader appends the head of a frame whose payload of n bytes follows.
func AppendHeader(dst []byte, t Type, n int) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	return append(dst, byte(t))
}
