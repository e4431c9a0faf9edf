package wire

import (
	"encoding/binary"
	"fmt"

	"whorl/content"
	"whorl/swarm"
)

// # Share protocol
//
// Whoever lacks bytes opens a stream to a holder for each object, which is named by the tree
// of its bytes (package content), and asks for pieces of it as long as it likes:
//
//	asker                    holder
//	  | -- Fetch -------------> |
//	  | <------- Have or Fail - |
//	  | -- Hashes(page) ------> |   trees of pieces; they make the object's name
//	  | <------------- Hashes - |
//	  | -- Piece(number) -----> |   several may be asked for ahead
//	  | <-------------- Piece - |   without bytes: it has it no more
//	  | -- Have --------------> |   what it has got meanwhile
//	  | <--------------- Have - |

// Pieces are what an object travels in, and what is checked at once: a subtree of sixteen
// leaves. The last one of an object may be shorter.
const (
	PieceSize  = 1 << 20
	PieceLevel = 4 // of the subtree: PieceSize is content.ChunkSize << PieceLevel
	// MaxPieces of an object are 512 GiB, more than any file of a model has.
	MaxPieces = 1 << 19
	// HashesInPage are the trees that one frame carries.
	HashesInPage = 1 << 14

	haveHead = 8
	pageHead = 4
)

// Fetch begins a stream about one object.
type Fetch struct {
	Version  int            `json:"version"`
	Features swarm.Features `json:"features,omitempty"` // of the asker
	Swarm    string         `json:"swarm"`              // its name
	Root     content.Hash   `json:"root"`               // tree of the object's bytes
}

// Pieces is how many pieces an object of so many bytes has.
func Pieces(size int64) int { return int((size + PieceSize - 1) / PieceSize) }

// Have says how long an object is, and which of its pieces the holder has.
type Have struct {
	Size int64
	// Bits has a bit for each piece, the first one the lowest of the first byte; nil: all.
	Bits []byte
}

// Has tells whether the holder has a piece.
func (h Have) Has(piece int) bool {
	return h.Bits == nil || piece/8 < len(h.Bits) && h.Bits[piece/8]>>(piece%8)&1 == 1
}

// AppendHave appends the frame.
func AppendHave(dst []byte, h Have) []byte {
	return AppendFrame(dst, TypeHave, binary.LittleEndian.AppendUint64(nil, uint64(h.Size)), h.Bits)
}

// ParseHave reads the payload; Bits is a part of it.
func ParseHave(p []byte) (Have, error) {
	if len(p) < haveHead {
		return Have{}, fmt.Errorf("%w: %d bytes of Have", ErrFrame, len(p))
	}
	size := binary.LittleEndian.Uint64(p)
	if size > MaxPieces*PieceSize {
		return Have{}, fmt.Errorf("%w: an object of %d bytes, at most %d", ErrFrame, size, int64(MaxPieces*PieceSize))
	}
	h := Have{Size: int64(size)}
	if bits := p[haveHead:]; len(bits) > 0 {
		if len(bits) != (Pieces(h.Size)+7)/8 {
			return Have{}, fmt.Errorf("%w: %d bytes for %d pieces", ErrFrame, len(bits), Pieces(h.Size))
		}
		h.Bits = bits
	}
	return h, nil
}

// AppendNumber appends a frame that asks for a page of hashes or for a piece.
func AppendNumber(dst []byte, t Type, n int) []byte {
	return AppendFrame(dst, t, binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

// ParseNumbered reads the payload of a Hashes or Piece frame: the number, and what follows it.
func ParseNumbered(p []byte) (n int, rest []byte, err error) {
	if len(p) < pageHead {
		return 0, nil, fmt.Errorf("%w: %d bytes where a number should be", ErrFrame, len(p))
	}
	if v := binary.LittleEndian.Uint32(p); v < MaxPieces {
		return int(v), p[pageHead:], nil
	}
	return 0, nil, fmt.Errorf("%w: a piece beyond %d", ErrFrame, MaxPieces)
}

// AppendPieceHeader appends all of a Piece frame but the bytes that follow.
func AppendPieceHeader(dst []byte, piece, size int) []byte {
	return binary.LittleEndian.AppendUint32(AppendHeader(dst, TypePiece, pageHead+size), uint32(piece))
}

// AppendHashes appends the frame of a page.
func AppendHashes(dst []byte, page int, hashes []content.Hash) []byte {
	body := binary.LittleEndian.AppendUint32(make([]byte, 0, pageHead+len(hashes)*len(content.Hash{})), uint32(page))
	for _, h := range hashes {
		body = append(body, h[:]...)
	}
	return AppendFrame(dst, TypeHashes, body)
}

// ParseHashes reads the payload of a page.
func ParseHashes(p []byte) (page int, hashes []content.Hash, err error) {
	page, rest, err := ParseNumbered(p)
	if err != nil {
		return 0, nil, err
	}
	const size = len(content.Hash{})
	if len(rest)%size != 0 || len(rest) > HashesInPage*size {
		return 0, nil, fmt.Errorf("%w: %d bytes of hashes", ErrFrame, len(rest))
	}
	hashes = make([]content.Hash, len(rest)/size)
	for i := range hashes {
		copy(hashes[i][:], rest[i*size:])
	}
	return page, hashes, nil
}
