package dir

import (
	"bufio"
	"context"
	"time"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/wire"
)

// Limits on what strangers can have this node do at a time.
const (
	// firstByte is how long a stream may stay silent at its start. It holds no turn meanwhile.
	firstByte = 2 * time.Second
	// servings are the pulls worked on at a time, once they have come whole.
	servings = 64
	// readingBytes bounds the pulls and answers that are being read, answerBytes the answers
	// that their askers have not read yet.
	readingBytes = 8 << 20
	answerBytes  = 16 << 20
)

// serve answers one pull. A turn is taken when the pull is there and given back before the
// answer is written, so that neither who is silent nor who does not read holds any.
func (d *Directory) serve(ctx context.Context, from swarm.PeerID, s wire.Stream) {
	who := budget.Who{Peer: string(from), Net: wire.Net(s)}
	in := bufio.NewReader(s)
	s.SetDeadline(time.Now().Add(firstByte))
	if _, err := in.Peek(1); err != nil {
		return
	}
	s.SetDeadline(time.Now().Add(exchangeTimeout))
	r := wire.NewReader(in)
	defer r.Release()
	r.Charge(ctx, nil, budget.Hold{Pool: d.reading.Pool, Who: who})
	payload, err := r.First(wire.TypePull)
	if err != nil {
		return
	}
	frame, size := d.reply(from, who, payload)
	if frame == nil { // the asker has other tellers
		return
	}
	defer d.answers.Give(size, who)
	r.Release()
	s.SetWriteDeadline(time.Now().Add(exchangeTimeout))
	if _, err := s.Write(frame); err == nil {
		s.Close()
	}
}

// reply makes the frame that answers a pull, nil if there is no turn or no room for it. Its
// size is taken from the budget of answers.
func (d *Directory) reply(from swarm.PeerID, who budget.Who, payload []byte) (frame []byte, size int64) {
	if d.turns.Take(1, who) != nil {
		return nil, 0
	}
	defer d.turns.Give(1, who)
	answer, err := d.answer(from, payload)
	if err == nil {
		for _, signed := range answer.Records {
			size += 2 * int64(len(signed)+len(signed)/2) // as text, twice while the frame is made
		}
	} else {
		d.warn("serve "+string(from), "peer is left out", "peer", from, "reason", err)
	}
	if d.answers.Take(size, who) != nil {
		return nil, 0
	}
	if err != nil {
		return wire.AppendJSON(nil, wire.TypeFail, wire.NewFail(0, err)), size
	}
	return wire.AppendJSON(nil, wire.TypeRecords, answer), size
}

// answer takes in what the asker brings and gives the answer.
func (d *Directory) answer(from swarm.PeerID, payload []byte) (*wire.Records, error) {
	var pull wire.Pull
	if err := wire.DecodeFirst(wire.TypePull, payload, d.host.ID(), from, &pull); swarm.CodeOf(err) == swarm.CodeVersion {
		return nil, err
	} else if err != nil {
		return nil, &swarm.Error{Code: swarm.CodeBadFrame, Verdict: swarm.Caller, Message: "pull cannot be read", Err: err}
	}
	switch {
	case pull.Swarm != d.cfg.Swarm:
		return nil, swarm.Errorf(swarm.CodeWrongSwarm, swarm.Caller, "node %s is of swarm %q, %s of %q: give both the same --swarm",
			d.host.ID().Short(), d.cfg.Swarm, from.Short(), pull.Swarm)
	case len(pull.Known) > wire.MaxKnown:
		return nil, swarm.Errorf(swarm.CodeBadFrame, swarm.Caller, "pull names %d records, at most %d", len(pull.Known), wire.MaxKnown)
	}
	now := d.cfg.Clock()
	d.compareClocks(from, pull.Now, now)
	d.take(pull.Own, wire.MaxOwn, d.source(from), from)
	d.mu.Lock()
	news := d.records.unknownTo(from, pull.Known, now)
	d.mu.Unlock()
	return &wire.Records{Now: now.UnixMilli(), Records: news}, nil
}

// Memory is the most that a directory takes because of others, in bytes: what it knows, what it
// reads and what it answers.
func Memory() int64 {
	return int64(defaultLimits.all.bytes) + readingBytes + answerBytes + dhtStreams*maxQuestion
}
