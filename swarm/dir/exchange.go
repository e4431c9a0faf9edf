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
	all := d.host.PeerIDs()
	slices.Sort(all)
	now := d.cfg.Clock()
	d.mu.Lock()
	defer d.mu.Unlock()
	size := d.records.size()
	return chooseTellers(d.host.ID(), d.initial, all, n, d.asked.at(size, now), size > crowd)
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

// pull is one exchange as its asker (wire.Pull).
func (d *Directory) pull(ctx context.Context, p swarm.PeerID) error {
	start, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	s, err := d.host.Dial(start, p, wire.ProtoDirectory)
	if err != nil {
		return err
	}
	defer s.Reset()
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	s.SetDeadline(time.Now().Add(exchangeTimeout))
	asked := d.cfg.Clock()
	from := d.source(p)
	question, own := d.question(p, from)
	if _, err := s.Write(wire.AppendJSON(nil, wire.TypePull, question)); err != nil {
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
	case wire.TypeOffer:
	default:
		return fmt.Errorf("%w: type %d in answer to a pull", wire.ErrFrame, t)
	}
	offer, err := wire.ParseOffer(payload)
	if err != nil {
		return err
	}
	r.Release()
	d.host.Member(p)
	d.compareClocks(p, offer.Now, asked)
	lefts, all, err := d.choose(s, offer, own, from)
	if err != nil {
		return err
	}
	s.SetDeadline(time.Now().Add(within(len(lefts))))
	for len(lefts) > 0 {
		t, payload, err := r.Next()
		if err != nil {
			return fmt.Errorf("exchange with %s: %w", p.Short(), err)
		}
		if t != wire.TypeRecords {
			return fmt.Errorf("%w: type %d instead of records", wire.ErrFrame, t)
		}
		parts, err := wire.ParseParts(payload)
		if err != nil {
			return err
		}
		if len(parts) == 0 || len(parts) > len(lefts) {
			return fmt.Errorf("%w: %d records where %d are to come", wire.ErrFrame, len(parts), len(lefts))
		}
		for i, part := range parts {
			from.left = lefts[i]
			d.accept(part, from, "") // refusals are counted and logged there; they do not spoil the others
		}
		lefts = lefts[len(parts):]
	}
	if all {
		d.stopped(p, cursor{offer.Log, offer.At})
		if offer.More {
			d.Refresh()
		}
	}
	err = s.Close()
	r.Release()
	d.fetchMissing(ctx, p)
	return err
}

// within is how long so many records may take.
func within(records int) time.Duration {
	return exchangeTimeout + time.Duration(records)*recordTimeout
}

// choose answers an offer, if there is anything to say. It returns how long each record that
// is to come has to live, and whether nothing was passed over.
func (d *Directory) choose(s wire.Stream, offer *wire.Offer, own wire.Part, from source) (lefts []time.Duration, all bool, err error) {
	now := d.cfg.Clock()
	d.mu.Lock()
	c, n, all := d.records.pick(offer, d.records.allow(from, now), from, now)
	d.records.spend(from, n, now)
	d.mu.Unlock()
	if offer.Beat {
		c.Own.Beat = own.Beat
	}
	if offer.Static {
		c.Own.Static = own.Static
	}
	if n == 0 && len(c.Own.Beat) == 0 {
		return nil, all, nil
	}
	for i, e := range offer.All {
		if c.Beats.Has(i) {
			lefts = append(lefts, time.Duration(e.Left)*time.Millisecond)
		}
	}
	_, err = s.Write(wire.AppendFrame(nil, wire.TypeChoice, c.Append(nil)))
	return lefts, all, err
}

// question begins an exchange with a peer; own is this node's record.
func (d *Directory) question(p swarm.PeerID, from source) (q wire.Pull, own wire.Part) {
	now := d.cfg.Clock()
	q = wire.Pull{Version: wire.Version, Features: wire.Features, Swarm: d.cfg.Swarm, Now: now.UnixMilli(), Most: wire.MaxOffered}
	if !from.named {
		q.Most = maxTold
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.cursors[p]
	q.Log, q.Since = c.log, c.at
	if e := d.records.peers[d.host.ID()]; e != nil {
		q.Own, own = &e.tag, e.part
	}
	return q, own
}

// stopped notes how far a teller's log is known.
func (d *Directory) stopped(p swarm.PeerID, at cursor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.cursors[p]; !ok && len(d.cursors) >= maxCursors {
		for q := range d.cursors { // any: who is asked again offers more than it needs, once
			delete(d.cursors, q)
			break
		}
	}
	d.cursors[p] = at
}

// compareClocks warns when a peer's clock is far from ours, and says so in another way when one
// of the two is refused by the others. asked is when it was asked, or now if it has just told the time.
func (d *Directory) compareClocks(p swarm.PeerID, theirs int64, asked time.Time) {
	if theirs == 0 {
		return
	}
	now := d.cfg.Clock()
	middle := asked.Add(now.Sub(asked) / 2)
	ahead, way := middle.Sub(time.UnixMilli(theirs)), "ahead of"
	if ahead < 0 {
		way, ahead = "behind", -ahead
	}
	text := "clocks disagree: records of one of the two are refused until they are set"
	switch {
	case ahead <= WarnSkew:
		return
	case ahead <= MaxSkew:
		text = "clocks differ: set them before records are refused"
	}
	d.warn("clock "+string(p), text,
		"peer", p, "reason", fmt.Sprintf("this node's clock is %v %s the peer's, at most %v is allowed", ahead.Round(time.Second), way, MaxSkew))
}
