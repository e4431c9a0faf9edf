package wire

import (
	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/proof"
)

// Limits on what a peer may send, in bytes of payload. Whatever a stranger can send before it
// is known to belong to a session is small; rows have the limit that their model gives them.
const (
	MaxOpen   = 128 << 10 // Open and Route, which carry a signed record
	MaxHello  = 4 << 10   // Want too
	MaxStatus = 4 << 10
	MaxFail   = 16 << 10
	MaxPull   = 4 << 10
	MaxOffer  = offerHead + MaxOffered*offeredSize
	MaxAnswer = 64 << 10 // one frame of Records
	MaxChoice = partHead + MaxBeat + MaxStatic + 2*((MaxOffered+7)/8)
	MaxRows   = 16 << 20 // bytes of rows in one frame, whatever the model
	minRows   = 1 << 20  // so much may come of narrow models too
	chunkRows = 1024     // rows in one frame; those who send make frames of at most half of it
)

// limit is the largest payload a type may have, of rows in any session.
func (t Type) limit() int {
	switch t {
	case TypeRows, TypeJournal, TypeChunk:
		return rowsHead + MaxRows
	case TypePass:
		return MaxPass
	case TypeCommit, TypeAsk, TypeGrant:
		return 0
	case TypeDone:
		return DoneSize + toldSize
	case TypeReceipt:
		return receiptHead + proof.MaxReceiptSize
	case TypeOpen, TypeRoute:
		return MaxOpen
	case TypeHello, TypeWant:
		return MaxHello
	case TypeManifest:
		return swarm.MaxManifestBytes
	case TypePull:
		return MaxPull
	case TypeRecords, TypeTold:
		return MaxAnswer
	case TypeOffer:
		return MaxOffer
	case TypeChoice:
		return MaxChoice
	case TypeFail:
		return MaxFail
	case TypeFetch, TypeHear:
		return MaxHello
	case TypeHave:
		return haveHead + MaxPieces/8
	case TypeHashes:
		return pageHead + HashesInPage*len(content.Hash{})
	case TypePiece:
		return pageHead + PieceSize
	default:
		return MaxStatus
	}
}

// rowsHead is the most a RowsHeader takes.
const rowsHead = RowsSize + 4 + MaxBeams

// RowsLimit is the largest frame of rows of so many bytes each: some chunks of a prompt, and
// at least a row.
func RowsLimit(rowBytes int) int {
	return rowsHead + max(rowBytes, min(MaxRows, max(minRows, chunkRows*rowBytes)))
}
