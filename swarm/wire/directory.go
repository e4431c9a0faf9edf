package wire

import "whorl/swarm"

// Pull asks a node for the signed records it knows, and offers one's own. The answer is one
// Records frame, or Fail for a node of another swarm or version. With Want it is all that
// [ProtoDirectory] has.
type Pull struct {
	Version  int            `json:"version"`
	Features swarm.Features `json:"features,omitempty"` // of the asker
	Swarm    string         `json:"swarm"`              // its name
	Now      int64          `json:"now_ms"`             // the asker's clock, unix milliseconds; 0 if not said
	Own      [][]byte       `json:"own,omitempty"`      // signed records of the asking node
	// Known holds the sequence numbers of records that need not be sent again.
	Known map[swarm.PeerID]uint64 `json:"known,omitempty"`
}

// Records is what a node knows and the asker lacks: signed records, newest of each peer.
type Records struct {
	Now     int64    `json:"now_ms"` // the teller's clock, unix milliseconds; 0 if not said
	Records [][]byte `json:"records"`
}

// Want asks a node for what a UID names. The answer is a Manifest frame, or Fail.
type Want struct {
	Version  int            `json:"version"`
	Features swarm.Features `json:"features,omitempty"` // of the asker
	Swarm    string         `json:"swarm"`              // its name
	UID      swarm.UID      `json:"uid"`
}

// Limits of the directory's messages.
const (
	MaxRecords     = 8192    // in one answer
	MaxRecordsSize = 1 << 20 // bytes of one answer as JSON; the next pull brings the rest
	MaxOwn         = 4       // in one Pull: a node serves one model
	MaxKnown       = 8192    // in one Pull
)
