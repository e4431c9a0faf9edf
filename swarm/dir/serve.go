package dir

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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
	// questions are how many a peer may ask at once, with those for manifests, and questionsRate how
	// many per Refresh from then on; netQuestions and netQuestionsRate are those of a prefix.
	questions, questionsRate       = 64, 4
	netQuestions, netQuestionsRate = 512, 64
	// offeredBytes is what a record takes while it is offered: as the offer has it, in memory
	// and as a frame, and as it may be chosen.
	offeredBytes = 24 + 24 + 48
)

// serve answers one question. A turn is taken when it is there whole and given back before the
// answer is written, so that neither who is silent nor who does not read holds any.
func (d *Directory) serve(ctx context.Context, from swarm.PeerID, s wire.Stream) {
	who := budget.Who{Peer: string(from), Net: wire.Net(s)}
	if !d.pace.Take(who, time.Now()) {
		d.host.Refused(from)
		return // it has other tellers, and asks too often
	}
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
	a := d.reply(from, who, t, payload)
	if a == nil { // the asker has other tellers
		return
	}
	defer func() { d.answers.Give(a.size, who) }()
	r.Release()
	s.SetDeadline(time.Now().Add(exchangeTimeout))
	if _, err := s.Write(a.frame); err != nil {
		return
	}
	a.frame = nil
	if a.offer != nil && d.serveChoice(from, who, s, r, a) != nil {
		return
	}
	s.Close()
}

// answer is what is held for an asker until it has read it.
type answer struct {
	frame []byte
	size  int64 // of the budget of answers
	offer *wire.Offer
	parts []wire.Part // by place in the offer
	clock int64       // of the asker
}

// serveChoice takes in what the asker brings and sends what it chose, some at a time.
func (d *Directory) serveChoice(from swarm.PeerID, who budget.Who, s wire.Stream, r *wire.Reader, a *answer) error {
	t, payload, err := r.Next()
	if errors.Is(err, io.EOF) {
		return nil // nothing is news
	}
	if err == nil && t != wire.TypeChoice {
		err = fmt.Errorf("%w: type %d in answer to an offer", wire.ErrFrame, t)
	}
	if err != nil {
		return err
	}
	c, err := wire.ParseChoice(payload, len(a.parts))
	if err != nil {
		return err
	}
	if len(c.Own.Beat) > 0 {
		if err := d.turns.Take(1, who); err != nil {
			return err
		}
		own := d.source(from)
		own.clock = a.clock
		d.accept(c.Own, own, from)
		d.turns.Give(1, who)
	}
	s.SetDeadline(time.Now().Add(within(len(a.parts))))
	var size int64
	var frame []byte
	flush := func() error {
		if size == 0 {
			return nil
		}
		wire.PutSize(frame)
		_, err := s.Write(frame)
		d.answers.Give(size, who)
		frame, size = frame[:0], 0
		return err
	}
	for i, p := range a.parts {
		if !c.Beats.Has(i) {
			continue
		}
		if !c.Statics.Has(i) {
			p.Static = nil
		}
		if size > 0 && len(frame)+p.Size() > wire.MaxParts {
			if err := flush(); err != nil {
				return err
			}
		}
		if size == 0 {
			size = wire.MaxAnswer
			if err := d.answers.Take(size, who); err != nil {
				return err
			}
			frame = wire.AppendHeader(frame, wire.TypeRecords, 0)
		}
		frame = p.Append(frame)
	}
	return flush()
}

// reply makes the frame that answers a question, nil if there is no turn or no room for it. Its
// size is taken from the budget of answers.
func (d *Directory) reply(from swarm.PeerID, who budget.Who, t wire.Type, payload []byte) *answer {
	if d.turns.Take(1, who) != nil {
		return nil
	}
	defer d.turns.Give(1, who)
	if t == wire.TypeWant {
		frame, size := d.replyManifest(from, who, payload)
		if frame == nil {
			return nil
		}
		return &answer{frame: frame, size: size}
	}
	a, err := d.answer(from, payload)
	if err != nil {
		d.warn("serve "+string(from), "peer is left out", "peer", from, "reason", err)
		return &answer{frame: wire.AppendJSON(nil, wire.TypeFail, wire.NewFail(0, err))}
	}
	if a.size = int64(len(a.parts)) * offeredBytes; d.answers.Take(a.size, who) != nil {
		return nil
	}
	a.frame = wire.AppendFrame(nil, wire.TypeOffer, a.offer.Append(nil))
	return a
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

// answer makes the offer that answers a pull.
func (d *Directory) answer(from swarm.PeerID, payload []byte) (*answer, error) {
	var pull wire.Pull
	if err := d.readFirst(wire.TypePull, payload, from, &pull); err != nil {
		return nil, err
	}
	if err := d.sameSwarm(from, pull.Swarm); err != nil {
		return nil, err
	}
	d.host.Member(from)
	now := d.cfg.Clock()
	d.compareClocks(from, pull.Now, now)
	d.mu.Lock()
	defer d.mu.Unlock()
	offer, parts := d.records.offer(from, &pull, now)
	return &answer{offer: offer, parts: parts, clock: pull.Now}, nil
}

// Memory is the most that a directory takes because of others, in bytes: what it knows, what it
// reads and what it answers.
func Memory() int64 {
	return int64(defaultLimits.all.bytes) + readingBytes + answerBytes + dhtStreams*maxQuestion
}
