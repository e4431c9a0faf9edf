package swarm

import (
	"fmt"
	"strings"
)

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

// Reachable is an address of a node and whether others get there.
type Reachable struct {
	Address   string `json:"address"`
	Reachable bool   `json:"reachable"`
	Via       string `json:"via"`   // "direct" or "relay"
	Asked     int    `json:"asked"` // how many members tried
}

// At is what is known of every address: of the node's own, and of those at relays among addrs, which a node
// announces while they relay for it.
func (r Reach) At(addrs []string) []Reachable {
	var out []Reachable
	for _, a := range r.Addrs {
		out = append(out, Reachable{Address: a.Addr, Reachable: a.State == ReachYes, Via: "direct", Asked: a.Asked})
	}
	for _, a := range addrs {
		if strings.Contains(a, "/p2p-circuit") {
			out = append(out, Reachable{Address: a, Reachable: len(r.Relays) > 0, Via: "relay"})
		}
	}
	return out
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
