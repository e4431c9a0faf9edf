package wire

// Pull asks a node for the signed records it knows, and offers one's own. It is the only
// message of ProtoDirectory; the answer is one Records frame.
type Pull struct {
	Version int      `json:"version"`
	Own     [][]byte `json:"own,omitempty"` // signed records of the asking node
}

// Records is a node's knowledge: signed records, newest of each peer.
type Records struct {
	Records [][]byte `json:"records"`
}

// MaxRecords is the most records one answer may hold.
const MaxRecords = 8192
