package proof

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"whorl/content"
	"whorl/swarm"
)

// Accusation says that a server gave a wrong row. With the server's receipt of a canary it is
// evidence: that the server signed this row, and all before it as they should be, can be told by
// whoever can compute the rows, and needs nobody's word. Without one it is a word of its auditor's,
// of which nothing follows but that others may look for themselves.
type Accusation struct {
	Canary
	Row  uint32         // the first that the server gave wrong
	Out  content.Hash   // what it gave
	Rows uint32         // that the receipt is about; 0 for a word without one
	Root content.Hash   // of the receipt
	Sig  []byte         // of the receipt
	Rest []content.Hash // of the rows behind Row: roots of the largest whole trees, in their order
}

// Limits of accusations, in bytes.
const (
	MaxAccusation = 1 << 10
	maxPeer       = 128
	maxRest       = 14 // trees behind any row of MaxCanaryRows
	accusationV1  = 1
)

// Errors of accusations.
var (
	ErrAccusation = errors.New("no accusation")
	// ErrRight says that the server signed what is right.
	ErrRight = errors.New("the server gave the right row")
)

// Signed tells whether there is a receipt.
func (a *Accusation) Signed() bool { return a.Rows > 0 }

// ID names the accusation.
func (a *Accusation) ID() content.Hash { return content.Sum(a.Append(nil)) }

// Append appends the accusation as it travels: numbers are little-endian.
func (a *Accusation) Append(b []byte) []byte {
	b = append(append(b, accusationV1), a.Manifest[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(a.Span.Start))
	b = binary.LittleEndian.AppendUint32(b, uint32(a.Span.End))
	b = append(binary.LittleEndian.AppendUint64(b, uint64(a.Made)), a.Salt[:]...)
	for _, p := range []swarm.PeerID{a.Auditor, a.Server} {
		b = append(append(b, byte(len(p))), p...)
	}
	b = append(binary.LittleEndian.AppendUint32(b, a.Row), a.Out[:]...)
	b = append(binary.LittleEndian.AppendUint32(b, a.Rows), a.Root[:]...)
	b = append(append(b, byte(len(a.Sig))), a.Sig...)
	b = append(b, byte(len(a.Rest)))
	for _, h := range a.Rest {
		b = append(b, h[:]...)
	}
	return b
}

// ParseAccusation reads what Append writes; nothing of b is kept. What it returns is whole, and not
// checked.
func ParseAccusation(b []byte) (a Accusation, err error) {
	if len(b) > MaxAccusation {
		return a, fmt.Errorf("%w: %d bytes, at most %d", ErrAccusation, len(b), MaxAccusation)
	}
	short := false
	take := func(n int) []byte {
		if short = short || n > len(b); short {
			return make([]byte, n)
		}
		head := b[:n]
		b = b[n:]
		return head
	}
	number := func() uint32 { return binary.LittleEndian.Uint32(take(4)) }
	hash := func(h *content.Hash) { copy(h[:], take(len(h))) }
	if v := take(1)[0]; v != accusationV1 && !short {
		return a, fmt.Errorf("%w: of version %d", ErrAccusation, v)
	}
	hash(&a.Manifest)
	start, end := number(), number()
	a.Made = int64(binary.LittleEndian.Uint64(take(8)))
	hash(&a.Salt)
	a.Auditor = swarm.PeerID(take(int(take(1)[0])))
	a.Server = swarm.PeerID(take(int(take(1)[0])))
	a.Row = number()
	hash(&a.Out)
	a.Rows = number()
	hash(&a.Root)
	a.Sig = slices.Clone(take(int(take(1)[0])))
	rest := int(take(1)[0])
	if rest > maxRest {
		return Accusation{}, fmt.Errorf("%w: %d trees", ErrAccusation, rest)
	}
	for range rest {
		var h content.Hash
		hash(&h)
		a.Rest = append(a.Rest, h)
	}
	if short || len(b) > 0 {
		return Accusation{}, fmt.Errorf("%w: it ends early or late", ErrAccusation)
	}
	const most = 1 << 20 // blocks of a model
	if start >= end || end > most {
		return Accusation{}, fmt.Errorf("%w: of blocks %d to %d", ErrAccusation, start, end)
	}
	a.Span = swarm.Span{Start: int(start), End: int(end)}
	if err := a.whole(); err != nil {
		return Accusation{}, err
	}
	return a, nil
}

// whole tells whether the members fit each other.
func (a *Accusation) whole() error {
	switch {
	case a.Auditor == "" || a.Server == "" || len(a.Auditor) > maxPeer || len(a.Server) > maxPeer || a.Auditor == a.Server:
		return fmt.Errorf("%w: by %.40q of %.40q", ErrAccusation, string(a.Auditor), string(a.Server))
	case a.Row >= MaxCanaryRows || a.Rows > MaxCanaryRows:
		return fmt.Errorf("%w: row %d of %d, at most %d", ErrAccusation, a.Row, a.Rows, MaxCanaryRows)
	case !a.Signed() && (len(a.Sig) > 0 || len(a.Rest) > 0 || !a.Root.IsZero()):
		return fmt.Errorf("%w: a word with parts of a receipt", ErrAccusation)
	case a.Signed() && (a.Row >= a.Rows || len(a.Sig) == 0 || len(a.Sig) > maxSig || len(a.Rest) != len(trees(int(a.Row)+1, int(a.Rows)))):
		return fmt.Errorf("%w: row %d of %d with %d trees behind it", ErrAccusation, a.Row, a.Rows, len(a.Rest))
	}
	return nil
}

// Check tells whether the server signed the receipt, if there is one: the cheap half of what makes
// evidence. The other is Proves.
func (a *Accusation) Check(verify Verify) error {
	if !a.Signed() {
		return nil
	}
	r := a.want()
	r.Rows, r.Root, r.Sig = a.Rows, a.Root, a.Sig
	return verify(a.Server, ReceiptDomain, r.Payload(), r.Sig)
}

// Proves tells whether the server signed another row than is right, by what is right for all rows
// up to it; Check has passed. ErrRight and ErrRows say that nothing is proven, and that whoever
// computed the canary could not have taken it for evidence.
func (a *Accusation) Proves(right []content.Hash, hidden int) error {
	if !a.Signed() || len(right) != int(a.Row)+1 {
		return fmt.Errorf("%w: %d rows to judge row %d by", ErrCount, len(right), a.Row)
	}
	if right[a.Row] == a.Out {
		return ErrRight
	}
	out := slices.Clone(right)
	out[a.Row] = a.Out
	var tree content.Roots
	for _, leaf := range a.leaves(out, hidden) {
		tree.Add(content.LeafOf(leaf[:]))
	}
	for i, level := range trees(int(a.Row)+1, int(a.Rows)) {
		tree.AddTree(a.Rest[i], level)
	}
	if tree.Root() != a.Root {
		return ErrRows
	}
	return nil
}

// Accuse makes the evidence of a canary: what the server gave, its receipt, and the first row that
// is wrong. ErrRows says that the server signed other rows than it gave; it gave wrong ones, but
// nobody else can see that.
func (c *Canary) Accuse(gave []content.Hash, row int, r *Receipt, hidden int, verify Verify) (Accusation, error) {
	a := c.Word(row, gave[row])
	want := c.want()
	if err := r.Check(c.Server, &want, verify); err != nil {
		return a, err
	}
	if int(r.Rows) != len(gave) {
		return a, fmt.Errorf("%w: %d, not %d", ErrCount, r.Rows, len(gave))
	}
	a.Rows, a.Root, a.Sig = r.Rows, r.Root, r.Sig
	leaves := c.leaves(gave, hidden)
	var all content.Roots
	for _, leaf := range leaves {
		all.Add(content.LeafOf(leaf[:]))
	}
	if all.Root() != r.Root {
		return c.Word(row, gave[row]), ErrRows
	}
	at := row + 1
	for _, level := range trees(at, len(gave)) {
		var tree content.Roots
		for _, leaf := range leaves[at : at+1<<level] {
			tree.Add(content.LeafOf(leaf[:]))
		}
		a.Rest = append(a.Rest, tree.Root())
		at += 1 << level
	}
	return a, nil
}

// Word is the accusation without a receipt.
func (c *Canary) Word(row int, out content.Hash) Accusation {
	return Accusation{Canary: *c, Row: uint32(row), Out: out}
}

// trees are the levels of the largest whole trees that leaves from one up to another make up.
func trees(from, to int) (levels []int) {
	for from < to {
		level := min(bits.TrailingZeros(uint(from)), bits.Len(uint(to-from))-1)
		levels = append(levels, level)
		from += 1 << level
	}
	return levels
}
