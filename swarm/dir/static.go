package dir

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// static is the part of a record that seldom changes. It travels once, as JSON, and is named
// by its hash; readers ignore members that they do not know, and every member added later is
// optional. Whose it is the heartbeat says.
type static struct {
	Features   swarm.Features           `json:"features,omitempty"`
	Addrs      []string                 `json:"addrs"`
	UID        swarm.UID                `json:"uid"`
	Span       swarm.Span               `json:"span"`
	PublicName string                   `json:"public_name,omitempty"`
	Version    string                   `json:"version"`
	CacheTotal int64                    `json:"cache_tokens_total"`
	MaxLength  int                      `json:"max_length"`
	Relay      bool                     `json:"relay,omitempty"`
	NextRTT    map[swarm.PeerID]float64 `json:"next_rtt_ms,omitempty"`
	Adapters   []swarm.Adapter          `json:"adapters,omitempty"`
}

var staticDomain = content.NewDomain("whorl record static")

// staticOf is a record's static part.
func staticOf(r *swarm.Record) static {
	return static{
		Features: r.Features, Addrs: r.Addrs, UID: r.UID, Span: r.Span, PublicName: r.PublicName, Version: r.Version,
		CacheTotal: r.CacheTotal, MaxLength: r.MaxLength, Relay: r.Relay, NextRTT: r.NextRTT, Adapters: r.Adapters,
	}
}

// into sets the members of a record that are static.
func (s *static) into(r *swarm.Record) {
	r.Features, r.Addrs, r.UID, r.Span, r.PublicName, r.Version = s.Features, s.Addrs, s.UID, s.Span, s.PublicName, s.Version
	r.CacheTotal, r.MaxLength, r.Relay, r.NextRTT, r.Adapters = s.CacheTotal, s.MaxLength, s.Relay, s.NextRTT, s.Adapters
}

// encode gives the bytes that travel, and their name.
func (s *static) encode() ([]byte, content.Hash, error) {
	b, err := json.Marshal(s)
	if err == nil && len(b) > wire.MaxStatic {
		err = fmt.Errorf("%w: a static part of %d bytes, at most %d", swarm.ErrBadRecord, len(b), wire.MaxStatic)
	}
	return b, staticDomain.Of(b), err
}

// decodeStatic reads what encode wrote. Whether it makes sense is for Record.Validate.
func decodeStatic(b []byte) (*static, error) {
	s := new(static)
	if len(b) > wire.MaxStatic {
		return nil, fmt.Errorf("%w: a static part of %d bytes, at most %d", swarm.ErrBadRecord, len(b), wire.MaxStatic)
	}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%w: static part: %v", swarm.ErrBadRecord, err)
	}
	return s, nil
}

// differs tells how a record's static part differs from another: not at all, in its round
// trips alone, or else.
func (s *static) differs(o *static) (roundTrips, others bool) {
	same := s.Features == o.Features && slices.Equal(s.Addrs, o.Addrs) && s.UID == o.UID && s.Span == o.Span &&
		s.PublicName == o.PublicName && s.Version == o.Version && s.CacheTotal == o.CacheTotal && s.MaxLength == o.MaxLength &&
		s.Relay == o.Relay && slices.Equal(s.Adapters, o.Adapters)
	return !maps.Equal(s.NextRTT, o.NextRTT), !same
}
