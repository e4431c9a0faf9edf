package proof

import (
	"encoding/binary"
	"math/rand/v2"

	"whorl/content"
	"whorl/swarm"
)

// MaxCanaryRows is the most rows of a canary, and the positions that its session reserves.
const MaxCanaryRows = 256

// Canary is a session that was made up to see what a server makes of it: of one stage, with rows
// that are drawn from a hash of all that stands here. No text of any user is in it, so that what
// came of it may be shown to everybody, and whoever holds the blocks can compute it without
// anybody's help: it needs neither the head nor the blocks in front of the span.
type Canary struct {
	Manifest content.Hash // that the UID is
	Span     swarm.Span
	Auditor  swarm.PeerID // who made it up
	Server   swarm.PeerID // whom it is for
	Made     int64        // unix milliseconds, by the auditor's clock
	Salt     content.Hash // the auditor's secret until it tells of the canary: without it nobody knows a canary by its nonce
}

var (
	canaryDomain = content.NewDomain("whorl canary")
	nonceDomain  = content.NewDomain("whorl nonce of a canary")
	drawDomain   = content.NewDomain("whorl row of a canary")
)

// seed names the canary.
func (c *Canary) seed() content.Hash {
	b := append(make([]byte, 0, 256), c.Manifest[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Span.Start))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Span.End))
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Made))
	b = append(b, c.Salt[:]...)
	for _, p := range []swarm.PeerID{c.Auditor, c.Server} {
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(p))), p...)
	}
	return canaryDomain.Of(b)
}

// Nonce is that of the session's receipts: a receipt with it is about this canary.
func (c *Canary) Nonce() content.Hash {
	seed := c.seed()
	return nonceDomain.Of(seed[:])
}

// CanaryMode is the mode of all canaries.
func CanaryMode() Mode { return Mode{MaxLength: MaxCanaryRows} }

// Fill appends rows of the canary from one up to another, of so many values each: 24 bits of
// ChaCha8 (math/rand/v2) each, spread evenly over [-1, 1), seeded for each row.
func (c *Canary) Fill(dst []float32, from, to, hidden int) []float32 {
	seed := c.seed()
	var at [4]byte
	for row := from; row < to; row++ {
		binary.LittleEndian.PutUint32(at[:], uint32(row))
		draw := rand.NewChaCha8(drawDomain.Of(seed[:], at[:]))
		for range hidden {
			dst = append(dst, float32(int64(draw.Uint64())>>40)*(1.0/(1<<23)))
		}
	}
	return dst
}

// leaves names rows of the canary's log, of which it is known what came out.
func (c *Canary) leaves(out []content.Hash, hidden int) []content.Hash {
	leaf := Leaf{Mode: CanaryMode().Hash(), Manifest: c.Manifest, Span: c.Span}
	all := make([]content.Hash, len(out))
	var in []float32
	for i, h := range out {
		in = c.Fill(in[:0], i, i+1, hidden)
		leaf.Row, leaf.Position, leaf.Parent = uint32(i), uint32(i), uint32(i-1) // NoParent for the first
		leaf.In, leaf.Out = HashRow(in), h
		all[i] = leaf.Hash()
	}
	return all
}

// want is what a receipt about the canary must say.
func (c *Canary) want() Receipt {
	return Receipt{Mode: CanaryMode().Hash(), Manifest: c.Manifest, Span: c.Span, Nonce: c.Nonce()}
}
