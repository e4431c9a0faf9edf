package swarm

import "time"

// NodeStatus is what a node tells of itself to its operator and its dashboard.
type NodeStatus struct {
	Peer       PeerID      `json:"peer_id"`
	Addrs      []string    `json:"addrs"` // with /p2p
	Roles      []string    `json:"roles"` // "server", "gateway", "bootstrap"
	Version    string      `json:"version"`
	Started    time.Time   `json:"started"`
	Swarm      string      `json:"swarm"`
	Manifest   *Manifest   `json:"manifest,omitempty"`
	UID        UID         `json:"uid,omitempty"`
	State      State       `json:"state"`
	Span       *Span       `json:"span,omitempty"`
	PublicName string      `json:"public_name,omitempty"`
	Rates      Rates       `json:"rates"`
	Throughput float64     `json:"throughput"`
	Cache      CacheStatus `json:"cache"`
	Sessions   int         `json:"sessions"`
	Served     uint64      `json:"served"` // sessions opened here since start
	Steps      uint64      `json:"steps"`  // iterations run since start
	Batch      BatchStatus `json:"batch"`
	Device     string      `json:"device,omitempty"` // for people
	Tier       string      `json:"tier,omitempty"`   // the set of kernels that computes
	Next       *Intent     `json:"next,omitempty"`   // where the server means to go
	Placement  *Placement  `json:"placement,omitempty"`
	Moves      []Move      `json:"moves,omitempty"`   // the last ones, the oldest first
	Drained    *Drained    `json:"drained,omitempty"` // nil unless the operator wants no sessions here
	Trouble    string      `json:"trouble,omitempty"` // why it does not serve; "" if nothing is wrong
	Memory     *Memory     `json:"memory,omitempty"`  // nil where it is not watched
	Peers      int         `json:"peers"`
	Reach      *Reach      `json:"reach,omitempty"` // whether others can dial it
	// Reachability is what Reach says of each address, with those at relays.
	Reachability []Reachable `json:"reachability,omitempty"`
	Transports   []string    `json:"transports,omitempty"` // "tcp", "quic": what the node listens on
	Loading      *Loading    `json:"loading,omitempty"`    // nil when nothing is being fetched
}

// Drained says that a node's operator wants no sessions on it, until it is resumed.
type Drained struct {
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// Memory is how short a server's memory is.
type Memory struct {
	Left    int64   `json:"left_bytes"`      // before somebody is ended for taking more
	Of      int64   `json:"of_bytes"`        // the limit that leaves the least, or what the machine has
	Limit   string  `json:"limit,omitempty"` // that limit, for people; "": the machine's memory
	Stalled float64 `json:"stalled"`         // share of the last ten seconds in which all work waited for memory
	// Short is why the server takes no sessions; "" if it does.
	Short  string     `json:"short,omitempty"`
	Since  *time.Time `json:"since,omitempty"` // with Short
	Parked uint64     `json:"parked"`          // sessions parked for want of memory since start
}

// Move is one from some blocks to others that a server made while it ran.
type Move struct {
	At     time.Time `json:"at"` // when the new blocks were served
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason"`
}

// MaxMoves is how many a server remembers.
const MaxMoves = 32

// What a node does while it loads.
const (
	Fetching = "fetching" // files come
	Reading  = "loading"  // all that it lacked is here: it is read and packed
)

// Loading is how far a node is with fetching a model's files.
type Loading struct {
	Phase string  `json:"phase"`            // Fetching or Reading
	Bytes int64   `json:"bytes_done"`       // that came
	Total int64   `json:"bytes_total"`      // that are to be fetched in all, as far as is known yet
	Rate  float64 `json:"bytes_per_second"` // lately
	// SecondsLeft is until all is there; nil where nothing comes.
	SecondsLeft *float64 `json:"seconds_left,omitempty"`
	// Sources is where it came from; nil of another node.
	Sources *Sources `json:"sources,omitempty"`
}

// Sources are bytes of a model's files: that came from peers, from a hub, and that were on the disk before.
type Sources struct {
	Swarm int64 `json:"swarm"`
	Hub   int64 `json:"hub"`
	Cache int64 `json:"cache"`
}

// NewLoading says how far a node is that has bytes of total and gets rate bytes a second.
func NewLoading(bytes, total int64, rate float64) *Loading {
	l := &Loading{Phase: Fetching, Bytes: bytes, Total: total, Rate: rate}
	if rate > 0 {
		left := float64(total-bytes) / rate
		l.SecondsLeft = &left
	}
	return l
}

// MaxLoading bounds what a server may say that it fetches, in bytes and in bytes a second: far
// more than any model and any link have.
const MaxLoading = 1 << 44

// valid tells whether a stranger's progress makes sense.
func (l *Loading) valid() bool {
	return l == nil || l.Bytes >= 0 && l.Bytes <= l.Total && l.Total < MaxLoading && l.Rate >= 0 && l.Rate < MaxLoading
}

// BatchStatus says how sessions shared a server's iterations.
type BatchStatus struct {
	Sessions      uint64  `json:"sessions"`       // that iterations had, all added up: over NodeStatus.Steps it is the mean batch
	Rows          uint64  `json:"rows"`           // positions computed through the span, since start
	PrefillRows   uint64  `json:"prefill_rows"`   // of prompts and replays, since start
	WaitedSeconds float64 `json:"waited_seconds"` // of iterations for rows while others were ready, all added up
	Recent        float64 `json:"recent"`         // mean batch of about the last 64 iterations; 0 before the first
}

// CacheStatus is in tokens of whole sessions (Record.CacheTotal).
type CacheStatus struct {
	TotalTokens int64 `json:"total_tokens"`
	UsedTokens  int64 `json:"used_tokens"`
	LeftTokens  int64 `json:"left_tokens"`
	TotalBytes  int64 `json:"total_bytes"`
	UsedBytes   int64 `json:"used_bytes"`
	Waiting     int   `json:"waiting"` // allocations in the queue
}

// AdapterStatus is one adapter that a server holds.
type AdapterStatus struct {
	Adapter
	Leaving  bool `json:"leaving,omitempty"` // it goes once the sessions that use it have ended
	Sessions int  `json:"sessions"`          // that use it
}

// BlockStatus is one block a server holds.
type BlockStatus struct {
	Index   int           `json:"index"`
	State   string        `json:"state"` // "loading", "loaded"
	Bytes   int64         `json:"bytes"`
	Load    time.Duration `json:"load_ns"`
	Digest  string        `json:"digest,omitempty"`
	Session int           `json:"sessions"`
}

// SessionStatus is one session, as a stage of it (Role "server") or as its owner
// ("gateway") sees it.
type SessionStatus struct {
	ID        string    `json:"id"`
	Role      string    `json:"role"`
	Model     string    `json:"model"`
	Peer      PeerID    `json:"peer,omitempty"` // the client, for a server
	Span      *Span     `json:"span,omitempty"`
	Route     []Hop     `json:"route,omitempty"` // for a gateway
	Epoch     uint32    `json:"epoch"`
	Position  int       `json:"position"`
	MaxLength int       `json:"max_length"`
	Bytes     int64     `json:"cache_bytes"`
	Opened    time.Time `json:"opened"`
	Steps     uint64    `json:"steps"`
	Queued    int       `json:"queued_rows"` // that wait for an iteration of a server
	// Stages are how long the stages of a gateway's session take, or a server's own; those
	// of which something is known.
	Stages []StageTime `json:"stages,omitempty"`
}

// StageTime is how long a stage takes for a step of one position, as a mean of the last ones, in
// milliseconds.
type StageTime struct {
	Peer PeerID `json:"peer"`
	Span Span   `json:"span"`
	// Step is, on a server, from the arrival of a row until it is computed; for a gateway from
	// when the sender had the row until the stage said that it is computed, with the network.
	Step  float64  `json:"step_ms"`
	Queue *float64 `json:"queue_ms,omitempty"` // of it before the iteration; a server's own only
}

// Millis is a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Hop is one stage of a route: who computes which blocks.
type Hop struct {
	Peer PeerID `json:"peer"`
	Span Span   `json:"span"`
}

// PeerStatus is a connection to another node.
type PeerStatus struct {
	Peer      PeerID   `json:"peer_id"`
	Addrs     []string `json:"addrs"`
	Direction string   `json:"direction"`
	Agent     string   `json:"agent,omitempty"`
	RTTMillis *float64 `json:"rtt_ms,omitempty"`
}
