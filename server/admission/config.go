package admission

import (
	"errors"
	"fmt"
	"time"

	"whorl/tensor"
)

// Cap is the most that one peer, or one prefix, may hold; 0 of either is no cap.
type Cap struct {
	Sessions int
	Pages    int
}

// Config of a Controller.
type Config struct {
	Pages     int // of the cache
	MaxTokens int // longest sequence; 0: whatever fits
	Sessions  int // of all, those that wait included
	Peer      Cap
	Prefix    Cap
	// Own is a peer to which no cap applies: the gateway of this very node.
	Own string

	// Wait is the longest wait, whatever a claim asks for.
	Wait time.Duration
	// Patience is how long a session waits that is within its fair share while others
	// hold more than theirs, even if its client would not: by then one of them has had
	// its service.
	Patience time.Duration
	// Lease is how long a session keeps its place without computing rows.
	Lease time.Duration
	// Service is what every session is sure of after each grant. Some times what its prompt
	// or replay took comes on top, or what will be computed anew if it was parked here: it
	// is not parked right behind that, nor in the middle.
	Service time.Duration
	// Rest is how long a session keeps its place after its last rows.
	Rest time.Duration
}

// Validate refuses sizes that make no cache.
func (c *Config) Validate() error {
	switch {
	case c.Pages < 1 || c.MaxTokens < 0 || c.Sessions < 1:
		return fmt.Errorf("admission: %d pages, sequences of %d tokens, %d sessions: want at least one page and session", c.Pages, c.MaxTokens, c.Sessions)
	case min(c.Peer.Sessions, c.Peer.Pages, c.Prefix.Sessions, c.Prefix.Pages) < 0:
		return errors.New("admission: a negative cap")
	case min(c.Wait, c.Patience, c.Lease, c.Service, c.Rest) < 0:
		return errors.New("admission: a negative time")
	}
	return nil
}

// Claim is what a session asks for.
type Claim struct {
	Peer    string
	Session string // tells one that was parked and comes back
	// Prefix groups peers by where they come from; "" for one of whom nothing is known,
	// who is then a group of its own.
	Prefix    string
	Tokens    int // positions of each sequence, at least 1
	Sequences int // 0 counts as 1
	Wait      time.Duration
}

// Pages is what the claim takes, at most.
func (c *Claim) Pages() int {
	return max(1, c.Sequences) * ((c.Tokens + tensor.PageTokens - 1) / tensor.PageTokens)
}

// group is who shares a fair share.
func (c *Claim) group() string {
	if c.Prefix != "" {
		return "prefix " + c.Prefix
	}
	return "peer " + c.Peer
}

// Reasons of a refusal; a *Refusal wraps one of them.
var (
	ErrTooLong        = errors.New("the session is longer than this server allows")
	ErrNever          = errors.New("the session can never fit")
	ErrShare          = errors.New("the peer's share of the cache is used up")
	ErrPrefixShare    = errors.New("the share of the cache of the peer's address prefix is used up")
	ErrFull           = errors.New("the cache is full")
	ErrSessions       = errors.New("sessions, the most it takes")
	ErrPeerSessions   = errors.New("sessions of this peer, the most it takes")
	ErrPrefixSessions = errors.New("sessions of this peer's address prefix, the most it takes")
)

// Refusal says why a session gets no place, with the numbers.
type Refusal struct {
	Reason error
	Asked  int   // tokens
	Limit  int64 // what the reason compares with: tokens, or sessions
	Waited time.Duration
	// Never tells that no wait helps: the claim alone is beyond a limit.
	Never bool
}

// Error is one sentence with the numbers.
func (r *Refusal) Error() string {
	switch r.Reason {
	case ErrFull:
		return fmt.Sprintf("cannot reserve cache for %d tokens: %v (%d tokens free) after waiting %.1f s", r.Asked, r.Reason, r.Limit, r.Waited.Seconds())
	case ErrSessions, ErrPeerSessions, ErrPrefixSessions:
		return fmt.Sprintf("it has %d %v", r.Limit, r.Reason)
	default:
		return fmt.Sprintf("cannot reserve cache for %d tokens: %v (at most %d tokens)", r.Asked, r.Reason, r.Limit)
	}
}

// Unwrap gives the reason.
func (r *Refusal) Unwrap() error { return r.Reason }
