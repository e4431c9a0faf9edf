package swarm

import "fmt"

// ReachState tells whether others can dial a node or an address.
type ReachState string

// The states.
const (
	ReachUnknown ReachState = "unknown" // nobody was there to ask
	ReachYes     ReachState = "reachable"
	ReachNo      ReachState = "unreachable"
)

// Reach is what members of the swarm found when they tried to dial a node.
type Reach struct {
	State     ReachState
	Strangers bool        // those who tried had never spoken to the node: a NAT would have let others in
	Addrs     []ReachAddr // announced ones, and those at which others see the node
	Relays    []string    // peers that relay for it
	Mapped    []string    // ports that the router forwards on request (UPnP, NAT-PMP)
}

// ReachAddr is one address: of Asked members that tried it Reached got through.
type ReachAddr struct {
	Addr    string
	State   ReachState
	Reached int
	Asked   int
}

// Advice says what a node's operator can do; "" if nothing need be done.
func (r Reach) Advice(port string) string {
	if r.State != ReachNo {
		return ""
	}
	text := fmt.Sprintf("forward port %s (TCP and UDP) of the router to this machine, give the address that others see with --public-ip", port)
	if len(r.Relays) > 0 {
		return text + "; until then a relay carries what direct connections cannot, and is slower"
	}
	return text + ", or let a node of the swarm that can be reached relay (it has not --no-relay)"
}
