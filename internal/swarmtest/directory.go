package swarmtest

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"whorl/swarm"
)

// Directory is a directory that all nodes of a test share: what is announced is seen at
// once.
type Directory struct {
	mu       sync.Mutex // guards all below
	seq      uint64
	records  map[swarm.PeerID]swarm.Record
	suspects map[swarm.PeerID]bool
	change   func(*swarm.Record) // nil for none
}

// NewDirectory makes an empty one.
func NewDirectory() *Directory {
	return &Directory{records: map[swarm.PeerID]swarm.Record{}, suspects: map[swarm.PeerID]bool{}}
}

// Change alters all records that there are and will be.
func (d *Directory) Change(f func(*swarm.Record)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.change = f
	for p, r := range d.records {
		f(&r)
		d.records[p] = r
	}
}

// For is the directory as one peer uses it.
func (d *Directory) For(p swarm.PeerID) *PeerDirectory { return &PeerDirectory{d, p} }

// PeerDirectory announces in the name of one peer.
type PeerDirectory struct {
	d    *Directory
	peer swarm.PeerID
}

// Announce publishes a record.
func (p *PeerDirectory) Announce(_ context.Context, r swarm.Record) error {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.d.seq++
	r.Peer, r.Seq, r.Issued = p.peer, p.d.seq, time.Now().UnixMilli()
	r.Expires = r.Issued + time.Minute.Milliseconds()
	if err := r.Validate(); err != nil {
		return err
	}
	if p.d.change != nil {
		p.d.change(&r)
	}
	p.d.records[p.peer] = r
	delete(p.d.suspects, p.peer)
	return nil
}

// View lists the records of one model, without suspects.
func (p *PeerDirectory) View(_ context.Context, uid swarm.UID) (swarm.View, error) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	var m swarm.Manifest
	var all []swarm.Record
	for peer, r := range p.d.records {
		if r.UID == uid {
			m = r.Manifest
			if !p.d.suspects[peer] {
				all = append(all, r)
			}
		}
	}
	return swarm.NewView(m, time.Now(), all), nil
}

// Signed is the record as bytes; nobody signs in a test without a network.
func (p *PeerDirectory) Signed(peer swarm.PeerID) ([]byte, bool) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	r, ok := p.d.records[peer]
	if !ok {
		return nil, false
	}
	b, err := json.Marshal(r)
	return b, err == nil
}

// Accept reads what Signed wrote.
func (p *PeerDirectory) Accept(b []byte) (*swarm.Record, error) {
	r, err := swarm.DecodeRecord(b)
	if err == nil && r.Peer == "" {
		err = errors.New("record without a peer")
	}
	return r, err
}

// Suspect hides a peer until it announces again.
func (p *PeerDirectory) Suspect(peer swarm.PeerID) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.d.suspects[peer] = true
}
