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

// serve answers one question. A turn is taken when it is there whole and given back before the
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
	t, payload, err := r.FirstOf(wire.TypePull, wire.TypeWant)
	if err != nil {
		return
	}
	frame, size := d.reply(from, who, t, payload)
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

// reply makes the frame that answers a question, nil if there is no turn or no room for it. Its
// size is taken from the budget of answers.
func (d *Directory) reply(from swarm.PeerID, who budget.Who, t wire.Type, payload []byte) (frame []byte, size int64) {
	if d.turns.Take(1, who) != nil {
		return nil, 0
	}
	defer d.turns.Give(1, who)
	if t == wire.TypeWant {
		return d.replyManifest(from, who, payload)
	}
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

// replyManifest is reply to a want.
func (d *Directory) replyManifest(from swarm.PeerID, who budget.Who, payload []byte) (frame []byte, size int64) {
	raw, err := d.give(from, payload)
	if err != nil && swarm.CodeOf(err) != swarm.CodeNotServed {
		d.warn("serve "+string(from), "peer is left out", "peer", from, "reason", err)
	}
	if d.answers.Take(int64(len(raw)), who) != nil {
		return nil, 0
	}
	if err != nil {
		return wire.AppendJSON(nil, wire.TypeFail, wire.NewFail(0, err)), 0
	}
	return wire.AppendFrame(nil, wire.TypeManifest, raw), int64(len(raw))
}

// readFirst reads the first frame of a stream.
func (d *Directory) readFirst(t wire.Type, payload []byte, from swarm.PeerID, v any) error {
	err := wire.DecodeFirst(t, payload, d.host.ID(), from, v)
	if err == nil || swarm.CodeOf(err) == swarm.CodeVersion {
		return err
	}
	return &swarm.Error{Code: swarm.CodeBadFrame, Verdict: swarm.Caller, Message: "a question to the directory cannot be read", Err: err}
}

// sameSwarm refuses nodes of another swarm.
func (d *Directory) sameSwarm(from swarm.PeerID, name string) error {
	if name == d.cfg.Swarm {
		return nil
	}
	return swarm.Errorf(swarm.CodeWrongSwarm, swarm.Caller, "node %s is of swarm %q, %s of %q: give both the same --swarm",
		d.host.ID().Short(), d.cfg.Swarm, from.Short(), name)
}

// answer takes in what the asker brings and gives the answer.
func (d *Directory) answer(from swarm.PeerID, payload []byte) (*wire.Records, error) {
	var pull wire.Pull
	if err := d.readFirst(wire.TypePull, payload, from, &pull); err != nil {
		return nil, err
	}
	if err := d.sameSwarm(from, pull.Swarm); err != nil {
		return nil, err
	}
	if len(pull.Known) > wire.MaxKnown {
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
