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

// The reasons why a record is refused; wrapped with the particulars. Others are
// swarm.ErrBadRecord.
var (
	ErrSignature = errors.New("record is not signed by its peer")
	ErrClock     = errors.New("clocks disagree")
	ErrExpired   = errors.New("record has expired")
	ErrProtocol  = errors.New("peer speaks another protocol version")
	ErrFull      = errors.New("the directory is full")
	ErrTeller    = errors.New("a node brings its own record and no other")
)

// errKnown ends the opening of a record that is not newer than what is known.
var errKnown = errors.New("record is known")

// MaxSkew is how far a peer's clock may be ahead or behind: well above what NTP leaves,
// well below the life of a record. Within it nothing changes.
const MaxSkew = 30 * time.Second

// signer and verifier are a node's key and the rule by which a peer id proves a signature.
type (
	signer   func(domain string, payload []byte) ([]byte, error)
	verifier func(p swarm.PeerID, domain string, payload, sig []byte) error
)

func seal(sign signer, r *swarm.Record) ([]byte, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(payload) > swarm.MaxRecordBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", swarm.ErrBadRecord, len(payload), swarm.MaxRecordBytes)
	}
	sig, err := sign(recordDomain, payload)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{payload, sig})
}

// open checks an envelope against the clock and its signature. who is the peer that the
// record claims to be of, proven or not, "" if that cannot be told. An error of unwanted,
// which is asked about the claim, ends it before anything costs time.
func open(signed []byte, now time.Time, verify verifier, unwanted func(who swarm.PeerID, seq uint64) error) (r *swarm.Record, who swarm.PeerID, err error) {
	if len(signed) > 2*swarm.MaxRecordBytes { // base64, and room for the signature
		return nil, "", fmt.Errorf("%w: envelope of %d bytes", swarm.ErrBadRecord, len(signed))
	}
	var e envelope
	if err := json.Unmarshal(signed, &e); err != nil {
		return nil, "", fmt.Errorf("%w: %v", swarm.ErrBadRecord, err)
	}
	var claim struct {
		Protocol int          `json:"protocol"`
		Peer     swarm.PeerID `json:"peer"`
		Seq      uint64       `json:"seq"`
	}
	if err := json.Unmarshal(e.Payload, &claim); err != nil {
		return nil, "", fmt.Errorf("%w: %v", swarm.ErrBadRecord, err)
	}
	who = claim.Peer
	if unwanted != nil {
		if err := unwanted(who, claim.Seq); err != nil {
			return nil, who, err
		}
	}
	if claim.Protocol != wire.Version {
		return nil, who, fmt.Errorf("%w: %s speaks %d, this node %d: update the older of the two", ErrProtocol, who.Short(), claim.Protocol, wire.Version)
	}
	if r, err = swarm.DecodeRecord(e.Payload); err != nil {
		return nil, who, err
	}
	for p := range r.NextRTT {
		if err := p2p.CheckID(p); err != nil {
			return nil, who, fmt.Errorf("%w of %s: round trip: %v", swarm.ErrBadRecord, who.Short(), err)
		}
	}
	if ahead := time.UnixMilli(r.Issued).Sub(now); ahead > MaxSkew {
		return nil, who, fmt.Errorf("%w: that of %s is %v ahead of ours, at most %v is allowed: set the clocks", ErrClock, who.Short(), ahead.Round(time.Second), MaxSkew)
	}
	if over := now.Sub(time.UnixMilli(r.Expires)); over >= MaxSkew {
		return nil, who, fmt.Errorf("%w: that of %s ended %v ago", ErrExpired, who.Short(), over.Round(time.Second))
	}
	if err := verify(r.Peer, recordDomain, e.Payload, e.Sig); err != nil {
		return nil, who, fmt.Errorf("%w: %v", ErrSignature, err)
	}
	return r, who, nil
}

// kind names a refusal for metrics.
func kind(err error) string {
	for _, k := range []struct {
		err  error
		name string
	}{{ErrSignature, "signature"}, {ErrClock, "clock"}, {ErrExpired, "expired"}, {ErrProtocol, "protocol"}, {ErrFull, "full"}, {ErrTeller, "teller"}} {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "invalid"
}
