package proof

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"whorl/content"
	"whorl/swarm"
)

// Receipt is a stage's word, signed, that it computed these rows in a session: from the first
// on, as its history stands. It names no user and no text; whoever has the rows can tell
// whether it is about them.
type Receipt struct {
	Mode     content.Hash // of the session
	Manifest content.Hash // that the UID is
	Span     swarm.Span   // that the stage computed
	Rows     uint32
	Nonce    content.Hash // the client's, so that a receipt of another session is none of this
	Root     content.Hash // over the rows: Log.Root
	Sig      []byte       // by the key of the stage's peer id, of Payload in ReceiptDomain
}

// ReceiptDomain is the purpose that receipts are signed for.
const ReceiptDomain = "receipt"

// What a receipt has in bytes.
const (
	payloadSize    = 4*len(content.Hash{}) + 3*4
	maxSig         = 128
	MaxReceiptSize = payloadSize + maxSig
)

// Errors of receipts. None of the first three blames a stage that has sent nothing else.
var (
	ErrReceipt = errors.New("no receipt")
	ErrOther   = errors.New("the receipt is about something else")
	ErrCount   = errors.New("the receipt is about another number of rows")
	// ErrRows says that the stage signed other rows than these: if they are what went in and
	// what should have come out, it computed something else.
	ErrRows = errors.New("the receipt is about other rows")
)

// Payload is what is signed: 140 bytes, the members in their order, numbers as four
// little-endian bytes.
func (r *Receipt) Payload() []byte { return r.appendPayload(make([]byte, 0, payloadSize)) }

func (r *Receipt) appendPayload(b []byte) []byte {
	b = append(append(b, r.Mode[:]...), r.Manifest[:]...)
	for _, n := range [...]uint32{uint32(r.Span.Start), uint32(r.Span.End), r.Rows} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return append(append(b, r.Nonce[:]...), r.Root[:]...)
}

// Append appends the receipt as it travels: payload, then signature.
func (r *Receipt) Append(b []byte) []byte { return append(r.appendPayload(b), r.Sig...) }

// ParseReceipt reads what Append writes; nothing of b is kept.
func ParseReceipt(b []byte) (r Receipt, err error) {
	if len(b) <= payloadSize || len(b) > MaxReceiptSize {
		return r, fmt.Errorf("%w: %d bytes, want %d to %d", ErrReceipt, len(b), payloadSize+1, MaxReceiptSize)
	}
	hash := func(h *content.Hash) { b = b[copy(h[:], b):] }
	number := func() (n uint32) {
		n, b = binary.LittleEndian.Uint32(b), b[4:]
		return n
	}
	hash(&r.Mode)
	hash(&r.Manifest)
	start, end := number(), number()
	r.Rows = number()
	hash(&r.Nonce)
	hash(&r.Root)
	if start >= end || end > math.MaxInt32 {
		return Receipt{}, fmt.Errorf("%w: of blocks %d to %d", ErrReceipt, start, end)
	}
	r.Span = swarm.Span{Start: int(start), End: int(end)}
	r.Sig = append([]byte(nil), b...)
	return r, nil
}

// Verify checks that a peer signed a payload for a purpose; p2p.Verify is one.
type Verify func(p swarm.PeerID, domain string, payload, sig []byte) error

// Check tells whether a peer signed the receipt, and about what was asked for: mode,
// manifest, span and nonce of want.
func (r *Receipt) Check(by swarm.PeerID, want *Receipt, verify Verify) error {
	if r.Mode != want.Mode || r.Manifest != want.Manifest || r.Span != want.Span || r.Nonce != want.Nonce {
		return ErrOther
	}
	return verify(by, ReceiptDomain, r.Payload(), r.Sig)
}

// Row is one row of a stage's history as somebody knows it who compares.
type Row struct {
	Position, Parent uint32 // as in Leaf
	In, Out          content.Hash
}

// Covers compares the receipt with all rows that it should be about, in order.
func (r *Receipt) Covers(rows []Row) error {
	if len(rows) != int(r.Rows) {
		return fmt.Errorf("%w: %d, not %d", ErrCount, r.Rows, len(rows))
	}
	var log Log
	leaf := Leaf{Mode: r.Mode, Manifest: r.Manifest, Span: r.Span}
	for i, row := range rows {
		leaf.Row, leaf.Position, leaf.Parent, leaf.In, leaf.Out = uint32(i), row.Position, row.Parent, row.In, row.Out
		log.Append(leaf.Hash())
	}
	if log.Root() != r.Root {
		return ErrRows
	}
	return nil
}

// Agrees compares receipts of two stages that computed the same from the same, for those who
// lack some of the rows. Both are taken to be checked. ErrRows says that one of the two
// computed something else, and not which.
func (r *Receipt) Agrees(other *Receipt) error {
	switch {
	case r.Mode != other.Mode || r.Manifest != other.Manifest || r.Span != other.Span:
		return ErrOther
	case r.Rows != other.Rows:
		return fmt.Errorf("%w: %d, not %d", ErrCount, r.Rows, other.Rows)
	case r.Root != other.Root:
		return ErrRows
	}
	return nil
}
