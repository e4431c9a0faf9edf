package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"whorl/swarm"
)

// Version of the protocols. It stands in the first frame of every stream and in every
// record, and a peer with another one is refused by name (DecodeFirst). What comes later is
// a feature, not a version: see swarm.Features.
const Version = 2

// The features.
const (
	// FeatureReceipts says that a server makes receipts of a session's rows.
	FeatureReceipts swarm.Features = 1 << iota
	// FeatureHandover says that a client understands Leaving.
	FeatureHandover
	// FeaturePacked says that a node reads rows that are packed (codec.BF16Packed).
	FeaturePacked
	// FeaturePasses says that a server computes passes (ProtoPass).
	FeaturePasses
	// FeaturePrompts says that a server takes sessions with prompts in front of blocks.
	FeaturePrompts
	// FeatureLoads says that a client reads the load of a server behind Done.
	FeatureLoads
)

// Features are those that this node has.
const Features = FeatureReceipts | FeatureHandover | FeaturePacked | FeaturePrompts | FeaturePasses | FeatureLoads

// Protocol ids of the streams. They tell no version: a peer that could not be spoken to at
// all could not be told why.
const (
	ProtoSession   = "/whorl/session"
	ProtoPush      = "/whorl/push"
	ProtoPass      = "/whorl/pass"
	ProtoDirectory = "/whorl/directory"
	ProtoShare     = "/whorl/share"
	ProtoEvidence  = "/whorl/evidence"
)

// HeadSize is the size of a frame's head: length and type.
const HeadSize = 5

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

// Net is the address prefix that a stream comes from, for budgets; "" for a stream that does
// not say, such as one of this machine.
func Net(s Stream) string {
	if n, ok := s.(interface{ Net() string }); ok {
		return n.Net()
	}
	return ""
}

// Type is the kind of a frame.
type Type uint8

// The frame types. Zero is none.
const (
	TypeOpen     Type = iota + 1 // JSON Open
	TypeAccept                   // JSON Status
	TypeCommit                   // empty
	TypeRows                     // RowsHeader + payload
	TypeDone                     // Done, 16 bytes, or 24 with a load
	TypeJournal                  // RowsHeader + payload
	TypeRoute                    // JSON Route
	TypeAsk                      // empty
	TypeStatus                   // JSON Status
	TypeFail                     // JSON Fail
	TypeHello                    // JSON Hello, first on a push stream
	TypePull                     // JSON, directory
	TypeRecords                  // Parts, directory
	TypeWant                     // JSON Want, directory
	TypeManifest                 // a manifest in its canonical form, directory
	TypeReceipt                  // empty from a client, who asks for one; Receipt from a stage
	TypeLeaving                  // JSON Leaving, to a client that has FeatureHandover
	TypeFetch                    // JSON Fetch, first on a share stream
	TypeHave                     // share: empty from who asks, pieces from who holds
	TypeHashes                   // share: a page's number from who asks, the page from who holds
	TypePiece                    // share: a piece's number from who asks, the piece from who holds
	TypeOffer                    // Offer, directory
	TypeChoice                   // Choice, directory
	TypePass                     // JSON Pass, first on a pass stream
	TypeGrant                    // empty: a pass may send its rows
	TypeChunk                    // ChunkHeader + payload
	TypeProgress                 // JSON Progress
	TypeHear                     // JSON Hear, first on an evidence stream
	TypeTold                     // Accusations: what a node knows against others
	numTypes
)

// ErrFrame marks bytes that are no frame of this protocol.
var ErrFrame = errors.New("bad frame")

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

// ParseHead reads the head of a frame: its type, and how many bytes of payload follow.
func ParseHead(b [HeadSize]byte) (t Type, n uint32) {
	return Type(b[4]), binary.LittleEndian.Uint32(b[:4])
}

// AppendHeader appends the head of a frame whose payload of n bytes follows.
func AppendHeader(dst []byte, t Type, n int) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	return append(dst, byte(t))
}

// PutSize sets the length in the head of a frame to that of what follows the head.
func PutSize(frame []byte) {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-HeadSize))
}
