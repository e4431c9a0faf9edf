package swarm

import "fmt"

// Observation is what a node saw of a peer. Nothing that a caller interrupted is one.
type Observation uint8

// The observations, each with its proof.
const (
	_           Observation = iota
	Refused                 // it says no: to a session, or to going on with one
	Unreachable             // it could not be dialled in the time that a dial may take
	Vanished                // its stream ended
	Mute                    // it did not answer a question in time
	Slow                    // several steps took many times what it announces, and a better server exists
	Stuck                   // it had its input and made nothing of it in the time of a step
	Withheld                // it said that it computed rows and did not pass them on
	Wrong                   // what came from it cannot be: frames, positions, rows that are not finite
	Broke                   // it says that it failed to compute
	Accused                 // it is one side of a quarrel about rows between two peers: no proof against either
	Lied                    // it must not be asked any more: an audit proved its rows wrong, or the operator banned it
)

var observationNames = [...]string{"", "refused", "unreachable", "vanished", "mute", "slow", "stuck", "withheld", "wrong", "broke", "accused", "lied"}

// String is the lower-case name.
func (o Observation) String() string {
	if int(o) < len(observationNames) {
		return observationNames[o]
	}
	return fmt.Sprintf("observation(%d)", uint8(o))
}

// Silent tells whether the peer may be dead: a directory hides it until it is heard again.
func (o Observation) Silent() bool { return o == Unreachable || o == Vanished || o == Mute }
