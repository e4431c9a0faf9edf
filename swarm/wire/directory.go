package wire

import (
	"encoding/binary"
	"fmt"

	"whorl/swarm"
)

// Pull begins an exchange of records. The answer is an Offer, or Fail for a node of another
// swarm or version. If there is anything in it that the asker lacks, or that the teller lacks
// of the asker, a Choice follows, and as many Records as bring what was chosen:
//
//	asker                        teller
//	  | -- Pull ------------------> |
//	  | <---------------- Offer --- |
//	  | -- Choice ----------------> |
//	  | <------------- Records ... - |
//
// With Want it is all that [ProtoDirectory] has.
type Pull struct {
	Version  int            `json:"version"`
	Features swarm.Features `json:"features,omitempty"` // of the asker
	Swarm    string         `json:"swarm"`              // its name
	Now      int64          `json:"now_ms"`             // the asker's clock, unix milliseconds; 0 if not said
	// Own is the tag of the asker's own record, if it has one.
	Own *Tag `json:"own,omitempty"`
	// Log and Since are those of the last Offer that this teller made: what has not changed
	// since then is not offered again. Zero asks for everything.
	Log   uint64 `json:"log,omitempty"`
	Since uint64 `json:"since,omitempty"`
	// Most is how many records the asker is ready to look at.
	Most int `json:"most"`
}

// Part is a record as it travels: a signed heartbeat, and the static part that it names unless
// the receiver has it.
type Part struct{ Beat, Static []byte }

// Tag tells a record from all others: the first bytes of the hashes of its two parts.
type Tag struct {
	Beat   uint64 `json:"beat"`
	Static uint64 `json:"static"`
}

// Offered is one record of an offer.
type Offered struct {
	Tag
	Left uint32 // milliseconds that it has to live by the teller's clock
}

// Offer lists what has changed at the teller, in the order of the changes.
type Offer struct {
	Now    int64  // the teller's clock, unix milliseconds; 0 if not said
	Log    uint64 // names the teller's count of changes: a new one for each process
	At     uint64 // the count after the last change that is listed: Since of the next Pull
	More   bool   // there are more than the asker would look at
	Beat   bool   // the teller lacks the asker's heartbeat
	Static bool   // and its static part
	All    []Offered
}

const (
	offerHead   = 8 + 8 + 8 + 1
	offeredSize = 8 + 8 + 4

	offerMore   = 1
	offerBeat   = 2
	offerStatic = 4
)

// Limits of the directory's messages.
const (
	MaxOffered = 16384    // records of one Offer
	MaxBeat    = 256      // bytes of a heartbeat with its signature
	MaxStatic  = 48 << 10 // bytes of a static part
	MaxParts   = 60 << 10 // bytes of one frame of Records, unless a single part has more
	partHead   = 2 + 4
)

// Append writes the payload.
func (o *Offer) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(o.Now))
	dst = binary.LittleEndian.AppendUint64(dst, o.Log)
	dst = binary.LittleEndian.AppendUint64(dst, o.At)
	var flags byte
	for bit, on := range map[byte]bool{offerMore: o.More, offerBeat: o.Beat, offerStatic: o.Static} {
		if on {
			flags |= bit
		}
	}
	dst = append(dst, flags)
	for _, e := range o.All {
		dst = binary.LittleEndian.AppendUint64(dst, e.Beat)
		dst = binary.LittleEndian.AppendUint64(dst, e.Static)
		dst = binary.LittleEndian.AppendUint32(dst, e.Left)
	}
	return dst
}

// ParseOffer reads a payload.
func ParseOffer(b []byte) (*Offer, error) {
	n := (len(b) - offerHead) / offeredSize
	if len(b) < offerHead || len(b) != offerHead+n*offeredSize || n > MaxOffered {
		return nil, fmt.Errorf("%w: an offer of %d bytes", ErrFrame, len(b))
	}
	flags := b[offerHead-1]
	o := &Offer{
		Now: int64(binary.LittleEndian.Uint64(b)), Log: binary.LittleEndian.Uint64(b[8:]), At: binary.LittleEndian.Uint64(b[16:]),
		More: flags&offerMore != 0, Beat: flags&offerBeat != 0, Static: flags&offerStatic != 0, All: make([]Offered, n),
	}
	for i := range o.All {
		e := b[offerHead+i*offeredSize:]
		o.All[i] = Offered{Tag{binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint64(e[8:])}, binary.LittleEndian.Uint32(e[16:])}
	}
	return o, nil
}

// Choice says what of an Offer is to be sent, and brings what the teller lacks of the asker.
type Choice struct {
	Own     Part // empty for nothing
	Beats   Bits // by place in the offer
	Statics Bits // of those in Beats
}

// Bits are a set of small numbers.
type Bits []byte

// NewBits is an empty set of numbers below n.
func NewBits(n int) Bits { return make(Bits, (n+7)/8) }

// Set puts a number in, which is below the n that the set was made for.
func (b Bits) Set(i int) { b[i/8] |= 1 << (i % 8) }

// Has tells whether a number is in the set.
func (b Bits) Has(i int) bool { return i/8 < len(b) && b[i/8]&(1<<(i%8)) != 0 }

// Append writes the payload.
func (c *Choice) Append(dst []byte) []byte {
	dst = c.Own.Append(dst)
	return append(append(dst, c.Beats...), c.Statics...)
}

// ParseChoice reads the answer to an offer of n records.
func ParseChoice(b []byte, n int) (*Choice, error) {
	own, rest, err := parsePart(b)
	if err != nil {
		return nil, err
	}
	size := len(NewBits(n))
	if len(rest) != 2*size {
		return nil, fmt.Errorf("%w: a choice of %d bytes among %d records", ErrFrame, len(rest), n)
	}
	return &Choice{own, Bits(rest[:size]), Bits(rest[size:])}, nil
}

// Size is how many bytes a part takes.
func (p Part) Size() int { return partHead + len(p.Beat) + len(p.Static) }

// Append writes a part: the lengths of both, then both.
func (p Part) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(p.Beat)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p.Static)))
	return append(append(dst, p.Beat...), p.Static...)
}

// parsePart reads one part; it keeps the bytes given.
func parsePart(b []byte) (p Part, rest []byte, err error) {
	if len(b) < partHead {
		return Part{}, nil, fmt.Errorf("%w: a part of a record ends early", ErrFrame)
	}
	beat, static := int(binary.LittleEndian.Uint16(b)), int64(binary.LittleEndian.Uint32(b[2:]))
	b = b[partHead:]
	if beat > MaxBeat || static > MaxStatic || int64(len(b)) < int64(beat)+static {
		return Part{}, nil, fmt.Errorf("%w: a heartbeat of %d and a static part of %d bytes, at most %d and %d, of which %d are there",
			ErrFrame, beat, static, MaxBeat, MaxStatic, len(b))
	}
	return Part{b[:beat:beat], b[beat : beat+int(static) : beat+int(static)]}, b[beat+int(static):], nil
}

// ParsePart reads a single part.
func ParsePart(b []byte) (Part, error) {
	p, rest, err := parsePart(b)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes behind a record", ErrFrame, len(rest))
	}
	return p, err
}

// ParseParts reads the parts of one frame of Records. They share its bytes.
func ParseParts(b []byte) (all []Part, err error) {
	for len(b) > 0 {
		var p Part
		if p, b, err = parsePart(b); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// Want asks a node for what a UID names. The answer is a Manifest frame, or Fail.
type Want struct {
	Version  int            `json:"version"`
	Features swarm.Features `json:"features,omitempty"` // of the asker
	Swarm    string         `json:"swarm"`              // its name
	UID      swarm.UID      `json:"uid"`
}
