package trust

import (
	"fmt"
	"time"
	"unicode"

	"whorl/swarm"
)

// Kind is what a peer was seen to do.
type Kind uint8

// The kinds. The texts are part of the file and of APIs.
const (
	Served  Kind = iota // computed what was asked, in time
	Lost                // could not be reached, or vanished
	Late                // many times slower than it announces
	Refused             // said no for a reason that this node could not check
	Broke               // sent frames that break the protocol
	Wrong               // its rows differ from those of another holder: one of the two lies
	Proven              // its rows differ from those of two others, or from this node's own; its bytes of a file are not what their hash names
	Agreed              // an audit of a whole session found its rows right
	Named               // an operator of this node banned it
	Accused             // is one of two peers that contradict each other about rows
	Doubted             // its rows differ from those of another holder, which is less known: it may be the one that lies
	numKinds
)

var kindNames = [numKinds]string{"served", "lost", "late", "refused", "broke", "wrong", "proven", "agreed", "banned", "accused", "doubted"}

// String is the name.
func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText writes the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a name.
func (k *Kind) UnmarshalText(b []byte) error {
	for i, n := range kindNames {
		if n == string(b) {
			*k = Kind(i)
			return nil
		}
	}
	return fmt.Errorf("unknown kind of observation %.32q", b)
}

// lie tells whether honest peers never do such a thing.
func (k Kind) lie() bool { return k == Wrong || k == Proven || k == Named }

// Observation is one thing that a peer was seen to do.
type Observation struct {
	Peer swarm.PeerID
	// Prefix is the network that the peer's address lies in, as the caller cuts it: "" where
	// that says nothing, as for loopback, private networks and relays.
	Prefix string
	Kind   Kind
	Count  int    // how many of them, such as steps served; 0 counts as 1
	Detail string // for people: what exactly; cut to MaxDetail bytes
	// Until, if set, ends what a lie costs before its time: what it was proven by is older.
	Until time.Time
}

// MaxDetail is how much of a detail is kept, in bytes.
const MaxDetail = 200

// clip keeps a text short and printable.
func clip(s string) string {
	out := make([]rune, 0, min(len(s), MaxDetail))
	size := 0
	for _, r := range s {
		if !unicode.IsPrint(r) {
			r = ' '
		}
		if size += len(string(r)); size > MaxDetail {
			break
		}
		out = append(out, r)
	}
	return string(out)
}

// Avoidance says that a peer is to be avoided, and why.
type Avoidance struct {
	Kind  Kind      `json:"kind"`
	Since time.Time `json:"since"` // of the last observation that counts
	Until time.Time `json:"until"`
	// Reason is a sentence for operators.
	Reason string `json:"reason"`
	// Never says that the peer must not be asked even where nobody else holds a block.
	Never bool `json:"never"`
}
