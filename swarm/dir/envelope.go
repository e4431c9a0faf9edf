package dir

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// recordDomain keeps record signatures apart from all others.
const recordDomain = "record/1"

// envelope is a record as it travels: the exact bytes that were signed.
type envelope struct {
	Payload []byte `json:"payload"` // JSON of a swarm.Record
	Sig     []byte `json:"sig"`
}

// The reasons why a record is refused; wrapped with the particulars.
var (
	ErrSignature = errors.New("record is not signed by its peer")
	ErrClock     = errors.New("clocks disagree")
	ErrExpired   = errors.New("record has expired")
	ErrProtocol  = errors.New("peer speaks another protocol version")
)

// MaxSkew is how far a peer's clock may be ahead or behind before its records are refused:
// well above what NTP leaves, well below a record's useful life times a few.
const MaxSkew = 2 * time.Minute

type signer interface {
	Sign(domain string, payload []byte) ([]byte, error)
}

func seal(s signer, r *swarm.Record) ([]byte, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	sig, err := s.Sign(recordDomain, payload)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{payload, sig})
}

// open checks an envelope against the clock and its signature.
func open(signed []byte, now time.Time) (*swarm.Record, error) {
	if len(signed) > 2*swarm.MaxRecordBytes {
		return nil, fmt.Errorf("%w: envelope of %d bytes", swarm.ErrBadRecord, len(signed))
	}
	var e envelope
	if err := json.Unmarshal(signed, &e); err != nil {
		return nil, fmt.Errorf("%w: %v", swarm.ErrBadRecord, err)
	}
	var version struct {
		Protocol int          `json:"protocol"`
		Peer     swarm.PeerID `json:"peer"`
	}
	if err := json.Unmarshal(e.Payload, &version); err != nil {
		return nil, fmt.Errorf("%w: %v", swarm.ErrBadRecord, err)
	}
	if version.Protocol != wire.Version {
		return nil, fmt.Errorf("%w: %s speaks %d, this node %d: the older of the two must be updated", ErrProtocol, version.Peer.Short(), version.Protocol, wire.Version)
	}
	r, err := swarm.DecodeRecord(e.Payload)
	if err != nil {
		return nil, err
	}
	if skew := time.UnixMilli(r.Issued).Sub(now); skew > MaxSkew {
		return nil, fmt.Errorf("%w: the clock of %s is %v ahead, at most %v is allowed", ErrClock, r.Peer.Short(), skew.Round(time.Second), MaxSkew)
	}
	if over := now.Sub(time.UnixMilli(r.Expires)); over > 0 {
		return nil, fmt.Errorf("%w: that of %s ended %v ago", ErrExpired, r.Peer.Short(), over.Round(time.Second))
	}
	if err := p2p.Verify(r.Peer, recordDomain, e.Payload, e.Sig); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrSignature, err)
	}
	return r, nil
}
