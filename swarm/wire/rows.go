package wire

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"whorl/swarm"
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

// DoneSize is the size of a Done on the wire, without a load.
const DoneSize = 16

// toldSize is what a load takes behind it: the share of time in hundredths, sessions, those that
// wait, and free pages of cache.
const toldSize = 1 + 2 + 2 + 3

// Done says that a stage has computed all rows before Position in its epoch. To a client that has
// [FeatureLoads] it says now and then how much the server has to do.
type Done struct {
	Epoch    uint32
	Position uint32
	Step     uint64
	Tells    bool // Told is there
	Told     Told
}

// Told is the load of a server, fresher than its record.
type Told struct {
	swarm.Load
	Left int64 // tokens of free cache
}

// Size is that of the Done on the wire.
func (d Done) Size() int {
	if d.Tells {
		return DoneSize + toldSize
	}
	return DoneSize
}

// Append appends so many bytes. What is beyond its field is told as the most that fits.
func (d Done) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, d.Epoch)
	dst = binary.LittleEndian.AppendUint32(dst, d.Position)
	dst = binary.LittleEndian.AppendUint64(dst, d.Step)
	if !d.Tells {
		return dst
	}
	dst = append(dst, uint8(math.Round(100*min(max(d.Told.Busy, 0), 1))))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(min(max(d.Told.Sessions, 0), math.MaxUint16)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(min(max(d.Told.Waiting, 0), math.MaxUint16)))
	pages := min(max(d.Told.Left/toldTokens, 0), 1<<24-1)
	return append(dst, uint8(pages), uint8(pages>>8), uint8(pages>>16))
}

// toldTokens are those of a page, in which free cache is told.
const toldTokens = 64

// ParseDone reads a Done payload.
func ParseDone(p []byte) (Done, error) {
	if len(p) != DoneSize && len(p) != DoneSize+toldSize {
		return Done{}, fmt.Errorf("%w: done of %d bytes", ErrFrame, len(p))
	}
	d := Done{
		Epoch:    binary.LittleEndian.Uint32(p),
		Position: binary.LittleEndian.Uint32(p[4:]),
		Step:     binary.LittleEndian.Uint64(p[8:]),
	}
	if p = p[DoneSize:]; len(p) == 0 {
		return d, nil
	}
	if p[0] > 100 {
		return Done{}, fmt.Errorf("%w: a load of %d %%", ErrFrame, p[0])
	}
	d.Tells = true
	d.Told.Busy, d.Told.Sessions, d.Told.Waiting = float64(p[0])/100, int(binary.LittleEndian.Uint16(p[1:])), int(binary.LittleEndian.Uint16(p[3:]))
	d.Told.Left = toldTokens * int64(uint32(p[5])|uint32(p[6])<<8|uint32(p[7])<<16)
	return d, nil
}
