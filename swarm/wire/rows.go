package wire

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// SessionID names a session: 16 random bytes chosen by the client.
type SessionID [16]byte

// String is lower-case hex.
func (id SessionID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText writes hex.
func (id SessionID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads hex.
func (id *SessionID) UnmarshalText(b []byte) error {
	if len(b) != 32 {
		return fmt.Errorf("session id of %d digits, want 32", len(b))
	}
	_, err := hex.Decode(id[:], b)
	return err
}

// RowsSize is the size of a RowsHeader without Beams on the wire.
const RowsSize = 44

// RowsHeader describes Rows and Journal frames; the payload follows, Count rows of the
// model's hidden size in the given codec. Rows are named by their place in the session's
// log, which is their position unless there are Beams.
type RowsHeader struct {
	Session SessionID
	Epoch   uint32
	Step    uint64 // the client's step the rows belong to
	Start   uint32 // the first row
	Count   uint32 // rows, at least 1
	Want    uint32 // first row whose final output the client asks for
	Codec   uint8  // see package codec
	Beams   Beams
}

// Size is the size of the header on the wire.
func (h *RowsHeader) Size() int { return RowsSize + h.Beams.size() }

// End is the row after the last one.
func (h *RowsHeader) End() int { return int(h.Start) + int(h.Count) }

// Append appends the header: 44 bytes, and for Beams the fork and a byte per sequence.
func (h *RowsHeader) Append(dst []byte) []byte {
	dst = append(dst, h.Session[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, h.Epoch)
	dst = binary.LittleEndian.AppendUint64(dst, h.Step)
	dst = binary.LittleEndian.AppendUint32(dst, h.Start)
	dst = binary.LittleEndian.AppendUint32(dst, h.Count)
	dst = binary.LittleEndian.AppendUint32(dst, h.Want)
	return h.Beams.append(append(dst, h.Codec, h.Beams.N, 0, 0))
}

// putEpoch replaces the epoch of an encoded header.
func putEpoch(header []byte, epoch uint32) { binary.LittleEndian.PutUint32(header[16:], epoch) }

// Limits of a session's geometry.
const (
	MaxPosition  = 1 << 24 // also of the rows of its log
	MaxRowsCount = 1 << 16
)

// ParseRows splits a Rows or Journal payload into header and data.
func ParseRows(p []byte) (RowsHeader, []byte, error) {
	var h RowsHeader
	if len(p) < RowsSize {
		return h, nil, fmt.Errorf("%w: rows of %d bytes", ErrFrame, len(p))
	}
	copy(h.Session[:], p)
	h.Epoch = binary.LittleEndian.Uint32(p[16:])
	h.Step = binary.LittleEndian.Uint64(p[20:])
	h.Start = binary.LittleEndian.Uint32(p[28:])
	h.Count = binary.LittleEndian.Uint32(p[32:])
	h.Want = binary.LittleEndian.Uint32(p[36:])
	h.Codec = p[40]
	if h.Count < 1 || h.Count > MaxRowsCount || h.Start > MaxPosition || h.Want > MaxPosition {
		return h, nil, fmt.Errorf("%w: %d rows from position %d, wanted from %d", ErrFrame, h.Count, h.Start, h.Want)
	}
	if n := p[41]; n > 0 {
		if err := h.Beams.parse(p[RowsSize:], n, int(h.Start), h.End()); err != nil {
			return h, nil, err
		}
	}
	return h, p[h.Size():], nil
}

// DoneSize is the size of a Done on the wire.
const DoneSize = 16

// Done says that a stage has computed all rows before Position in its epoch.
type Done struct {
	Epoch    uint32
	Position uint32
	Step     uint64
}

// Append appends the 16 bytes.
func (d Done) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, d.Epoch)
	dst = binary.LittleEndian.AppendUint32(dst, d.Position)
	return binary.LittleEndian.AppendUint64(dst, d.Step)
}

// ParseDone reads a Done payload.
func ParseDone(p []byte) (Done, error) {
	if len(p) != DoneSize {
		return Done{}, fmt.Errorf("%w: done of %d bytes", ErrFrame, len(p))
	}
	return Done{
		Epoch:    binary.LittleEndian.Uint32(p),
		Position: binary.LittleEndian.Uint32(p[4:]),
		Step:     binary.LittleEndian.Uint64(p[8:]),
	}, nil
}
