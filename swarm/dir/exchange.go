package dir

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// tell exchanges records with up to n peers: the first peers of the swarm that are
// connected, then others in rotation. It returns how many answered.
func (d *Directory) tell(ctx context.Context, n int) int {
	var wg sync.WaitGroup
	answered := make(chan bool, n)
	for _, p := range d.tellers(n) {
		wg.Go(func() { answered <- d.exchange(ctx, p) == nil })
	}
	wg.Wait()
	close(answered)
	heard := 0
	for ok := range answered {
		if ok {
			heard++
		}
	}
	return heard
}

// tellers chooses whom to ask.
func (d *Directory) tellers(n int) []swarm.PeerID {
	connected := d.host.Libp2p().Network().Peers()
	var all []swarm.PeerID
	for _, id := range connected {
		all = append(all, swarm.PeerID(id.String()))
	}
	slices.Sort(all)
	d.mu.Lock()
	d.lastPull++
	at := d.lastPull
	d.mu.Unlock()
	var out []swarm.PeerID
	for _, p := range d.bootstrapIDs() {
		if slices.Contains(all, p) && len(out) < (n+1)/2 && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for i := range all {
		p := all[(i+at)%len(all)]
		if len(out) < n && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// exchange sends our own records to a peer and takes in what it knows.
func (d *Directory) exchange(ctx context.Context, p swarm.PeerID) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	s, err := d.host.Dial(ctx, p, wire.ProtoDirectory)
	if err != nil {
		return err
	}
	defer s.Reset()
	s.SetDeadline(time.Now().Add(exchangeTimeout))
	if _, err := s.Write(wire.AppendJSON(nil, wire.TypePull, wire.Pull{Version: wire.Version, Own: d.ownSigned()})); err != nil {
		return err
	}
	t, payload, err := wire.NewReader(bufio.NewReader(s)).Next()
	if err != nil {
		return err
	}
	var got wire.Records
	if t != wire.TypeRecords {
		return fmt.Errorf("%w: type %d in answer to a pull", wire.ErrFrame, t)
	}
	if err := wire.Decode(t, payload, &got); err != nil {
		return err
	}
	d.take(got.Records)
	return s.Close()
}

// take accepts records; bad ones are counted and do not spoil the others.
func (d *Directory) take(all [][]byte) {
	for _, signed := range all[:min(len(all), wire.MaxRecords)] {
		if r, err := d.Accept(signed); err == nil && r.Peer == d.host.ID() {
			d.cfg.Log.Debug("our own record came back", "seq", r.Seq)
		}
	}
}

func (d *Directory) ownSigned() [][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.records.peers[d.host.ID()]; e != nil {
		return [][]byte{e.signed}
	}
	return nil
}

// serve answers one pull.
func (d *Directory) serve(_ context.Context, from swarm.PeerID, s wire.Stream) {
	s.SetDeadline(time.Now().Add(exchangeTimeout))
	t, payload, err := wire.NewReader(bufio.NewReader(s)).Next()
	var pull wire.Pull
	if err != nil || t != wire.TypePull || wire.Decode(t, payload, &pull) != nil {
		return
	}
	if pull.Version != wire.Version {
		d.cfg.Log.Warn("peer speaks another version of the directory", "peer", from, "version", pull.Version)
		return
	}
	d.take(pull.Own)
	d.mu.Lock()
	all := d.records.signed(time.Now(), wire.MaxRecords)
	d.mu.Unlock()
	// Stay within the frame: base64 in JSON adds a third.
	size := 0
	for i, r := range all {
		if size += len(r)*4/3 + 4; size > 15<<20 {
			all = all[:i]
			break
		}
	}
	if _, err := s.Write(wire.AppendJSON(nil, wire.TypeRecords, wire.Records{Records: all})); err == nil {
		s.Close()
	}
}
