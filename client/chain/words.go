package chain

import (
	"fmt"
	"strconv"

	"whorl/swarm"
)

// Code maps the code of a peer's failure to the closed set of those that a client passes
// on. A code is the peer's claim: what would make its user look guilty is not in the set.
func Code(c swarm.Code) swarm.Code {
	switch c {
	case swarm.CodeCacheFull, swarm.CodeTooLong, swarm.CodeTooMany, swarm.CodeDraining, swarm.CodeLowMemory, swarm.CodeNotLoaded, swarm.CodeWrongModel,
		swarm.CodeVersion, swarm.CodeGap, swarm.CodeNoSession, swarm.CodeBadOutput, swarm.CodeTimeout, swarm.CodePeerLost:
		return c
	case swarm.CodeInternal:
		return swarm.CodeBadOutput
	}
	return swarm.CodePeerLost
}

// sentence says in our words what a code of that set means; it follows "server X with blocks
// A:B". Users read it.
func (m *Machine) sentence(c swarm.Code) string {
	switch c {
	case swarm.CodeCacheFull:
		return fmt.Sprintf("has no room now for a session of %d tokens: its attention cache is full", m.p.MaxLength)
	case swarm.CodeTooLong:
		return fmt.Sprintf("cannot hold a session of %d tokens", m.p.MaxLength)
	case swarm.CodeTooMany:
		return "takes no more sessions of this client now"
	case swarm.CodeDraining:
		return "is draining"
	case swarm.CodeLowMemory:
		return "is short of memory"
	case swarm.CodeNotLoaded:
		return "is not online yet"
	case swarm.CodeWrongModel:
		return "does not hold what it announced"
	case swarm.CodeVersion:
		return "speaks another version of the session protocol"
	case swarm.CodeNoSession:
		return "does not know the session any more"
	case swarm.CodeBadOutput, swarm.CodeGap:
		return "failed to compute a step"
	case swarm.CodeTimeout:
		return "was not told to go on in time"
	}
	return "gave the session up"
}

// heardMost is how much of a peer's text a log line holds, in bytes.
const heardMost = 200

// Heard is a peer's text, cut and quoted for a log. No user sees it.
func Heard(text string) string { return strconv.QuoteToASCII(text[:min(len(text), heardMost)]) }
