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
	State     ReachState  `json:"state"`
	Strangers bool        `json:"strangers"`        // those who tried had never spoken to the node: a NAT would have let others in
	Addrs     []ReachAddr `json:"addrs"`            // announced ones, and those at which others see the node
	Relays    []string    `json:"relays,omitempty"` // peers that relay for it
	Mapped    []string    `json:"mapped,omitempty"` // where the router forwards on request (UPnP, NAT-PMP)
	Advice    string      `json:"advice,omitempty"` // what its operator can do
}

// ReachAddr is one address: of Asked members that tried it Reached got through. Where none of
// them could try, the state is what AutoNAT found out.
type ReachAddr struct {
	Addr    string     `json:"addr"`
	State   ReachState `json:"state"`
	Reached int        `json:"reached"`
	Asked   int        `json:"asked"`
}

// String is the address and what is known of it.
func (a ReachAddr) String() string {
	if a.Asked == 0 {
		return fmt.Sprintf("%s (%s)", a.Addr, a.State)
	}
	return fmt.Sprintf("%s (%s: %d of %d who tried)", a.Addr, a.State, a.Reached, a.Asked)
}

// Advise says what the operator of a node can do; "" if nothing need be done.
func (r Reach) Advise() string {
	if r.State != ReachNo {
		return ""
	}
	const text = "forward the port (--port, TCP and UDP) of the router to this machine, and name the address that others see with --public-ip"
	if len(r.Relays) > 0 {
		return text + "; until then relays carry what direct connections cannot, and are slower"
	}
	return text + ", or have a node of the swarm that can be dialled relay for this one"
}
