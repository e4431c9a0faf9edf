package trust

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"whorl/swarm"
)

// fileVersion is of the form that Encode writes.
const fileVersion = 1

// MaxFile bounds what Decode reads, in bytes.
const MaxFile = 16 << 20

type file struct {
	Version int         `json:"version"`
	Peers   []filedPeer `json:"peers"`
}

type filedPeer struct {
	Peer     swarm.PeerID       `json:"peer"`
	Prefix   string             `json:"prefix,omitempty"`
	At       time.Time          `json:"at"`
	Seen     time.Time          `json:"seen"`
	Counts   map[string]float64 `json:"counts"`
	Sessions int                `json:"sessions,omitempty"`
	Lie      *Avoidance         `json:"lie,omitempty"`
}

// Encode writes what outlives the process: counts and lies. That a peer failed a minute ago
// does not.
func (b *Book) Encode(now time.Time) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := file{Version: fileVersion, Peers: []filedPeer{}}
	for id, e := range b.peers {
		e.decay(now, b.p.HalfLife)
		p := filedPeer{Peer: id, Prefix: e.prefix, At: e.at, Seen: e.seen, Counts: map[string]float64{}, Sessions: e.sessions}
		for k, n := range e.counts {
			if n >= 0.005 {
				p.Counts[Kind(k).String()] = n
			}
		}
		if e.lie.Until.After(now) {
			p.Lie = &e.lie
		}
		if len(p.Counts) > 0 || p.Sessions > 0 || p.Lie != nil {
			f.Peers = append(f.Peers, p)
		}
	}
	slices.SortFunc(f.Peers, func(x, y filedPeer) int { return cmp.Compare(x.Peer, y.Peer) })
	return json.MarshalIndent(f, "", "\t")
}

// ErrFile marks bytes that Encode did not write.
var ErrFile = errors.New("not a file of observed peers")

// Decode reads what Encode wrote into an empty book. Nothing is taken from a file that is
// broken anywhere.
func (b *Book) Decode(data []byte, now time.Time) error {
	if len(data) > MaxFile {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrFile, len(data), MaxFile)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("%w: %v", ErrFile, err)
	}
	if f.Version != fileVersion {
		return fmt.Errorf("%w of version %d: it has version %d", ErrFile, fileVersion, f.Version)
	}
	peers := map[swarm.PeerID]*entry{}
	for _, p := range f.Peers {
		e, err := p.entry(now)
		if err != nil {
			return err
		}
		if len(peers) < b.p.MaxPeers {
			peers[p.Peer] = e
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peers = peers
	clear(b.liars)
	for id, e := range peers {
		if e.lie.Kind == Proven && e.lie.Until.After(now) {
			b.condemn(e.prefix, id, e.lie.Until)
		}
	}
	return nil
}

func (p *filedPeer) entry(now time.Time) (*entry, error) {
	if p.Peer == "" || len(p.Peer) > 128 || len(p.Prefix) > 128 || p.Sessions < 0 {
		return nil, fmt.Errorf("%w: peer %.40q of %d sessions", ErrFile, p.Peer, p.Sessions)
	}
	e := &entry{prefix: p.Prefix, at: p.At, seen: p.Seen, sessions: p.Sessions}
	if e.at.After(now) { // the clock was set back
		e.at = now
	}
	for name, n := range p.Counts {
		var k Kind
		if err := k.UnmarshalText([]byte(name)); err != nil || !(n >= 0) || math.IsInf(n, 0) {
			return nil, fmt.Errorf("%w: peer %.40q was %.32q %v times", ErrFile, p.Peer, name, n)
		}
		e.counts[k] = n
	}
	if p.Lie != nil {
		if !p.Lie.Kind.lie() {
			return nil, fmt.Errorf("%w: peer %.40q is avoided for being %v", ErrFile, p.Peer, p.Lie.Kind)
		}
		e.lie = *p.Lie
		e.lie.Reason, e.lie.Never = clip(e.lie.Reason), true
	}
	return e, nil
}
