package swarm

import "fmt"

// Link is what passes between a node and others of its swarm, in bytes a second.
type Link struct {
	Up   float64 `json:"up"`   // from the node
	Down float64 `json:"down"` // to it
}

// AssumedLink stands for one that was not measured: 100 Mbit/s, as in Petals.
var AssumedLink = Link{Up: 12.5e6, Down: 12.5e6}

// RPS is how many rows of a model pass a server each second: each comes in, and goes out to the
// next server and to the client's journal, as float32.
func (l Link) RPS(hidden int) float64 {
	row := 4 * float64(max(1, hidden))
	return min(l.Down/row, l.Up/(2*row), MaxRate)
}

// Network is the rate at which rows pass a server, and whether that is measured or assumed.
func (r *Record) Network() (rps float64, measured bool) {
	if n := r.Rates.NetworkRPS; n != nil {
		return *n, true
	}
	return AssumedLink.RPS(r.Manifest.Hidden), false
}

// String is for logs and pages.
func (l Link) String() string {
	const mbit = 1e6 / 8
	return fmt.Sprintf("%.1f Mbit/s up, %.1f Mbit/s down", l.Up/mbit, l.Down/mbit)
}
