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

// tell exchanges records with up to n peers: initial peers that are connected, then others
// in rotation. It returns how many answered, and the last refusal of those who are of
// another swarm or version.
func (d *Directory) tell(ctx context.Context, n int) (heard int, refusal error) {
	var pulls sync.WaitGroup
	defer pulls.Wait()
	return d.tellFor(ctx, n, exchangeTimeout, &pulls)
}

// tellFor is tell for a limited time: exchanges that take longer go on in pulls.
func (d *Directory) tellFor(ctx context.Context, n int, limit time.Duration, pulls *sync.WaitGroup) (heard int, refusal error) {
	asked := d.tellers(n)
	results := make(chan error, len(asked))
	for _, p := range asked {
		pulls.Go(func() { results <- d.exchange(ctx, p) })
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	for range asked {
		select {
		case err := <-results:
			switch code := swarm.CodeOf(err); {
			case err == nil:
				heard++
			case code == swarm.CodeWrongSwarm || code == swarm.CodeVersion:
				refusal = err
			}
		case <-late.C:
			return heard, refusal
		}
	}
	return heard, refusal
}

// tellers chooses whom to ask.
func (d *Directory) tellers(n int) []swarm.PeerID {
	var all []swarm.PeerID
	for _, id := range d.host.Libp2p().Network().Peers() {
		all = append(all, swarm.PeerID(id.String()))
	}
	slices.Sort(all)
	d.mu.Lock()
	d.turn++
	at, initial := d.turn, d.initial
	d.mu.Unlock()
	return chooseTellers(initial, all, n, at)
}

// chooseTellers takes up to n of the connected peers: initial ones for up to half of them,
// rounded up, since everybody tells those, the others from a place that moves with each
// turn.
func chooseTellers(initial, connected []swarm.PeerID, n, turn int) []swarm.PeerID {
	var out []swarm.PeerID
	take := func(p swarm.PeerID, most int) {
		if len(out) < most && slices.Contains(connected, p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for i := range initial {
		take(initial[(i+turn)%len(initial)], (n+1)/2)
	}
	for i := range connected {
		take(connected[(i+turn)%len(connected)], n)
	}
	return out
}

// exchange sends our own record to a peer and takes in what it knows.
func (d *Directory) exchange(ctx context.Context, p swarm.PeerID) error {
	err := d.pull(ctx, p)
	result := "ok"
	if err == nil {
		d.mu.Lock()
		d.heard = d.cfg.Clock()
		d.mu.Unlock()
	} else {
		result = "failed"
		if e := swarm.AsError(err); e.Code == swarm.CodeWrongSwarm || e.Code == swarm.CodeVersion {
			result = "refused"
			d.warn("exchange "+string(p), "peer is left out", "peer", p, "reason", err)
		}
	}
	d.metrics.exchanges.WithLabelValues(result).Inc()
	return err
}

func (d *Directory) pull(ctx context.Context, p swarm.PeerID) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	s, err := d.host.Dial(ctx, p, wire.ProtoDirectory)
	if err != nil {
		return err
	}
	defer s.Reset()
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	asked := d.cfg.Clock()
	if _, err := s.Write(wire.AppendJSON(nil, wire.TypePull, d.question())); err != nil {
		return err
	}
	r := wire.NewReader(bufio.NewReader(s))
	defer r.Release()
	r.Charge(ctx, nil, d.reading)
	t, payload, err := r.Next()
	if err != nil {
		return fmt.Errorf("exchange with %s: %w", p.Short(), err)
	}
	switch t {
	case wire.TypeFail:
		var f wire.Fail
		if err := wire.Decode(t, payload, &f); err != nil {
			return err
		}
		return f.Err(p)
	case wire.TypeRecords:
	default:
		return fmt.Errorf("%w: type %d in answer to a pull", wire.ErrFrame, t)
	}
	var got wire.Records
	if err := wire.Decode(t, payload, &got); err != nil {
		return err
	}
	d.compareClocks(p, got.Now, asked)
	from, most := d.source(p), maxTold
	if from.named {
		most = wire.MaxRecords
	}
	d.take(got.Records, most, from, "")
	err = s.Close()
	r.Release()
	d.fetchMissing(ctx, p)
	return err
}

func (d *Directory) question() wire.Pull {
	q := wire.Pull{Version: wire.Version, Features: wire.Features, Swarm: d.cfg.Swarm, Now: d.cfg.Clock().UnixMilli()}
	d.mu.Lock()
	defer d.mu.Unlock()
	q.Known = d.records.known(d.cfg.Clock())
	if e := d.records.peers[d.host.ID()]; e != nil {
		q.Own = [][]byte{e.signed}
	}
	return q
}

// compareClocks warns when a peer's clock is far from ours: one of the two is refused by
// the others. asked is when it was asked, or now if it has just told the time.
func (d *Directory) compareClocks(p swarm.PeerID, theirs int64, asked time.Time) {
	if theirs == 0 {
		return
	}
	now := d.cfg.Clock()
	middle := asked.Add(now.Sub(asked) / 2)
	if ahead := middle.Sub(time.UnixMilli(theirs)); ahead > MaxSkew || ahead < -MaxSkew {
		way := "ahead of"
		if ahead < 0 {
			way, ahead = "behind", -ahead
		}
		d.warn("clock "+string(p), "clocks disagree: records of one of the two are refused until they are set",
			"peer", p, "reason", fmt.Sprintf("this node's clock is %v %s the peer's, at most %v is allowed", ahead.Round(time.Second), way, MaxSkew))
	}
}

// take accepts records; bad ones are counted and do not spoil the others.
func (d *Directory) take(all [][]byte, most int, from source, only swarm.PeerID) {
	for _, signed := range all[:min(len(all), most)] {
		d.accept(signed, from, only) // refusals are counted and logged there
	}
}
