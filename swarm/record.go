package swarm

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// State is what a server says it is doing. The order matters: balancing counts servers
// from Joining on, routing only Online ones.
type State uint8

const (
	Offline  State = iota // left, or leaving: its record lingers so that others know
	Draining              // finishes its sessions, takes no new ones
	Joining               // has chosen its span and loads it
	Online                // serves
)

var stateNames = [...]string{"offline", "draining", "joining", "online"}

// String is the lower-case name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// MarshalText writes the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name.
func (s *State) UnmarshalText(b []byte) error {
	for i, n := range stateNames {
		if n == string(b) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("unknown server state %q", b)
}

// Features are what a node can do beyond the version of its protocols, a bit each. It says
// so in its record and in the first frame of every stream; whoever does not know a bit
// passes it by. A feature changes nothing for those who lack it.
type Features uint64

// Rates are tokens per second. nil means not measured, and is shown so.
type Rates struct {
	InferenceRPS *float64 `json:"inference_rps,omitempty"` // decode, through one block
	ForwardRPS   *float64 `json:"forward_rps,omitempty"`   // prefill, through one block
	NetworkRPS   *float64 `json:"network_rps,omitempty"`   // through the link
	// AssumedRPS is reckoned with while NetworkRPS is nil. It is for status and never told.
	AssumedRPS *float64 `json:"assumed_network_rps,omitempty"`
}

// Record is what a server says of itself. It describes the whole span, so that one record
// is enough to know all of it. How it travels is the business of swarm/dir: what changes all
// the time in a heartbeat, the rest beside it. Every field added later is optional.
type Record struct {
	Protocol   int      `json:"protocol"` // version of the protocols: wire.Version
	Features   Features `json:"features,omitempty"`
	Peer       PeerID   `json:"peer"`
	Addrs      []string `json:"addrs"` // multiaddrs without /p2p
	UID        UID      `json:"uid"`   // of the manifest
	Span       Span     `json:"span"`
	State      State    `json:"state"`
	Seq        uint64   `json:"seq"` // rises with every record of this peer, across restarts
	Issued     int64    `json:"issued_ms"`
	Expires    int64    `json:"expires_ms"` // unix milliseconds
	PublicName string   `json:"public_name,omitempty"`
	Version    string   `json:"version"` // of the software
	Rates      Rates    `json:"rates"`
	// Throughput is what the server offers per block, in tokens per second, as balancing
	// sums it; 0 if nothing was measured or declared.
	Throughput float64 `json:"throughput"`
	// Cache is in tokens of whole sessions: one token takes room in every block of the span.
	CacheTotal int64 `json:"cache_tokens_total"`
	CacheLeft  int64 `json:"cache_tokens_left"`
	MaxLength  int   `json:"max_length"` // longest session it accepts
	Relay      bool  `json:"relay,omitempty"`
	// NextRTT holds round trips, in milliseconds, to servers that could come next.
	NextRTT map[PeerID]float64 `json:"next_rtt_ms,omitempty"`
	// Adapters are those that sessions may ask for.
	Adapters []Adapter `json:"adapters,omitempty"`
	// Next is where the server means to go. nil: it stays, or joins where Span says.
	Next *Intent `json:"next,omitempty"`
	// Load is how much it has to do; nil is not told.
	Load *Load `json:"load,omitempty"`
	// Loading is how far a Joining server is with fetching its files, told in place of Load;
	// nil: it fetches none.
	Loading *Loading `json:"loading,omitempty"`

	// Manifest is what the UID names. It is no part of what is signed: whoever announces a
	// record hands it over here, and the directory fills it in for those who read.
	Manifest Manifest `json:"-"`
}

// Limits of a record read from strangers.
const (
	MaxRecordBytes = 256 << 10
	// MaxAddrs is room for some networks and a name: each is an address that others may dial.
	MaxAddrs     = 8
	maxNextRTT   = 64
	maxShortText = 128
	// MaxPublicName bounds a public name, in bytes.
	MaxPublicName = maxShortText
	// MaxLifetime caps how long any record may claim to live.
	MaxLifetime = 30 * time.Minute
	// MaxRate is a token through a block in a picosecond, faster than light crosses a chip;
	// sums over any swarm stay exact to a token.
	MaxRate = 1e12
	// MaxTokens of cache are more than fit into a machine; sums over any swarm fit an int64.
	MaxTokens = 1 << 40
	// maxRTT is an hour, in milliseconds: three times to the Sun and back.
	maxRTT = 3.6e6
)

// ErrBadRecord marks a record that breaks the rules; wrapped with what is wrong.
var ErrBadRecord = errors.New("bad record")

// Validate checks everything but the signature and the clock.
func (r *Record) Validate() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w of %s: %s", ErrBadRecord, r.Peer.Short(), fmt.Sprintf(format, a...))
	}
	n := MaxBlocks
	if r.Manifest.Blocks > 0 { // else it is not known yet
		n = r.Manifest.Blocks
	}
	_, named := r.UID.Hash()
	switch {
	case !named:
		return bad("model %.*q, want the hash of a manifest", maxShortText, string(r.UID))
	case r.Peer == "" || len(r.Peer) > maxShortText:
		return bad("peer id of %d bytes", len(r.Peer))
	case len(r.Addrs) > MaxAddrs:
		return bad("%d addresses, at most %d", len(r.Addrs), MaxAddrs)
	case r.Span.Start < 0 || r.Span.Start >= r.Span.End || r.Span.End > n:
		return bad("span %v of a model of %d blocks", r.Span, n)
	case !r.Next.valid(n):
		return bad("intended span %v since %d ms, of a model of %d blocks", r.Next.Span, r.Next.Since, n)
	case !r.Load.valid():
		return bad("a load that no server has: %+v", *r.Load)
	case !r.Loading.valid():
		return bad("%d of %d bytes fetched at %g a second", r.Loading.Bytes, r.Loading.Total, r.Loading.Rate)
	case len(r.PublicName) > maxShortText || len(r.Version) > maxShortText:
		return bad("overlong name or version")
	case r.CacheTotal < 0 || r.CacheLeft < 0 || r.CacheLeft > r.CacheTotal || r.MaxLength < 0:
		return bad("cache of %d of %d tokens, sessions of %d", r.CacheLeft, r.CacheTotal, r.MaxLength)
	case r.CacheTotal > MaxTokens || r.MaxLength > MaxTokens:
		return bad("cache of %d tokens and sessions of %d, at most %d", r.CacheTotal, r.MaxLength, int64(MaxTokens))
	case len(r.NextRTT) > maxNextRTT:
		return bad("%d round trips, at most %d", len(r.NextRTT), maxNextRTT)
	case r.Issued < 0 || r.Expires <= r.Issued || r.Expires-r.Issued > MaxLifetime.Milliseconds():
		return bad("issued at %d ms and expiring at %d, want a lifetime of 1 to %d", r.Issued, r.Expires, MaxLifetime.Milliseconds())
	case !rate(&r.Throughput) || !rate(r.Rates.InferenceRPS) || !rate(r.Rates.ForwardRPS) || !rate(r.Rates.NetworkRPS):
		return bad("a rate that is no number of 0 to %g tokens per second", float64(MaxRate))
	}
	for _, a := range r.Addrs {
		if len(a) > maxNameLen {
			return bad("address of %d bytes", len(a))
		}
	}
	if err := validAdapters(r.Adapters); err != nil {
		return bad("%v", err)
	}
	for p, ms := range r.NextRTT {
		if len(p) > maxShortText || !(ms >= 0 && ms <= maxRTT) {
			return bad("round trip %v to %q", ms, p)
		}
	}
	return nil
}

func rate(f *float64) bool { return f == nil || *f >= 0 && *f <= MaxRate }

// Newer tells whether r replaces old: same peer, higher sequence.
func (r *Record) Newer(old *Record) bool { return old == nil || r.Seq > old.Seq }

// DecodeRecord reads and validates the JSON form, in which nodes of one process hand records on.
func DecodeRecord(b []byte) (*Record, error) {
	if len(b) > MaxRecordBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrBadRecord, len(b), MaxRecordBytes)
	}
	r := new(Record)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBadRecord, err)
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	return r, nil
}
