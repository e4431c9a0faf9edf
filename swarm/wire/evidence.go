package wire

import (
	"encoding/binary"
	"fmt"

	"whorl/swarm"
	"whorl/swarm/proof"
)

// Hear begins an exchange of accusations, which is all that [ProtoEvidence] has. Accusations of
// the asker follow, those of the teller come back; Fail does for a node of another swarm or version.
//
//	asker                          teller
//	  | -- Hear, Accusations -------> |
//	  | <------------ Accusations --- |
type Hear struct {
	Version  int            `json:"version"`
	Features swarm.Features `json:"features,omitempty"` // of the asker
	Swarm    string         `json:"swarm"`              // its name
	// Log and Since are Log and At of the last Accusations that this teller sent: what it told
	// then is not told again.
	Log   uint64 `json:"log,omitempty"`
	Since uint64 `json:"since,omitempty"`
}

// Accusations are what a node found to be so, or made itself, since it was last asked.
type Accusations struct {
	Log uint64 // names the node's list: a new one for each process
	At  uint64 // place of the last of all in the list
	All [][]byte
}

// MaxAccusations is how many one frame has at most.
const MaxAccusations = 62

const accusationsHead = 8 + 8

// AppendFrame appends the whole frame; of too many the last are left out.
func (a *Accusations) AppendFrame(dst []byte) []byte {
	body := binary.LittleEndian.AppendUint64(nil, a.Log)
	body = binary.LittleEndian.AppendUint64(body, a.At)
	for _, raw := range a.All[:min(len(a.All), MaxAccusations)] {
		body = append(binary.LittleEndian.AppendUint16(body, uint16(len(raw))), raw...)
	}
	return AppendFrame(dst, TypeTold, body)
}

// ParseAccusations reads the payload; All shares its bytes.
func ParseAccusations(b []byte) (*Accusations, error) {
	if len(b) < accusationsHead {
		return nil, fmt.Errorf("%w: accusations of %d bytes", ErrFrame, len(b))
	}
	a := &Accusations{Log: binary.LittleEndian.Uint64(b), At: binary.LittleEndian.Uint64(b[8:])}
	for b = b[accusationsHead:]; len(b) > 0; {
		if len(b) < 2 {
			return nil, fmt.Errorf("%w: %d bytes behind accusations", ErrFrame, len(b))
		}
		n := int(binary.LittleEndian.Uint16(b))
		if b = b[2:]; n == 0 || n > proof.MaxAccusation || n > len(b) || len(a.All) == MaxAccusations {
			return nil, fmt.Errorf("%w: an accusation of %d bytes, of which %d are there, after %d others", ErrFrame, n, len(b), len(a.All))
		}
		a.All = append(a.All, b[:n:n])
		b = b[n:]
	}
	return a, nil
}
