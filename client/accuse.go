package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"whorl/client/audit"
	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/proof"
	"whorl/swarm/trust"
)

// What audits prove rests on what a user wrote, and stays here. To show others that a server lies,
// this node makes up a canary, has the server compute it, and tells of what it signed: whoever
// hears of it has the rows computed by others of its own choice, and believes nobody (ADR 0029).

// canaryRows are how long the canaries of a server are, one after the other: who lies in each row
// shows it at once, and who lies in one of a thousand rows in most cases in the end.
var canaryRows = []int{16, 256, 256, 256, 256, 256, 256, 256}

// convict has this node avoid a proven liar; until bounds for how long, zero for as long as any.
func (e *Engine) convict(p swarm.PeerID, detail string, until time.Time) {
	e.note(trust.Observation{Peer: p, Kind: trust.Proven, Detail: detail, Until: until})
	e.Leave(p, fmt.Errorf("server %s was proven to send wrong rows: %s", p.Short(), detail))
}

// proved is convict of a liar that this node has found itself, and of which others should know.
func (e *Engine) proved(liar swarm.Hop, detail string) {
	e.convict(liar.Peer, detail, time.Time{})
	a := &e.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on && e.cfg.Accuse != nil && len(a.proven) < maxAudits {
		a.proven = append(a.proven, liar)
		a.poke()
	}
}

// expose has a server that audits proved to lie compute canaries until it signs a wrong row, and
// tells of that, or else merely that it lies.
func (e *Engine) expose(ctx context.Context, liar swarm.Hop) {
	log := e.cfg.Log.With("peer", liar.Peer, "blocks", liar.Span.String())
	word := e.newCanary(liar).Word(0, content.Hash{})
	for _, rows := range canaryRows {
		found, err := e.tryCanary(ctx, liar, rows)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			log.Debug("a canary proved nothing of a liar", "rows", rows, "reason", err)
		}
		if found.accusation.Signed() {
			log.Warn("a server signed a wrong row of a canary, and others are told", "row", found.accusation.Row)
			e.cfg.Accuse(found.accusation)
			return
		}
		if found.lied {
			word = found.accusation
		}
	}
	log.Warn("a server that audits proved to lie signed no wrong row of a canary, and others are told only that it lies")
	e.cfg.Accuse(word)
}

// caught is what a canary found of a server.
type caught struct {
	lied       bool
	right      bool // in all rows
	by         []swarm.PeerID
	accusation proof.Accusation // of one that lied
}

// newCanary makes one up.
func (e *Engine) newCanary(server swarm.Hop) *proof.Canary {
	manifest, _ := e.uid.Hash()
	c := &proof.Canary{Manifest: manifest, Span: server.Span, Auditor: e.cfg.Auditor, Server: server.Peer, Made: time.Now().UnixMilli()}
	rand.Read(c.Salt[:])
	return c
}

// tryCanary has a server compute a new canary of some rows, and others judge it.
func (e *Engine) tryCanary(ctx context.Context, server swarm.Hop, rows int) (caught, error) {
	c := e.newCanary(server)
	ev := e.ofCanary(c)
	gave, receipt, err := e.askCanary(ctx, ev, server, rows)
	if err != nil {
		return caught{}, err
	}
	v := audit.Judge(audit.Claim{Peer: server.Peer, Span: server.Span, Out: gave}, e.cfg.Self, &asker{ctx: ctx, e: e, ev: ev.unhurried(), span: server.Span})
	if ctx.Err() != nil {
		return caught{}, ctx.Err()
	}
	found := caught{right: v.Result == audit.Agreed, by: v.By}
	for _, p := range v.Liars {
		found.lied = found.lied || p == server.Peer
		if p != server.Peer { // a witness
			e.proved(swarm.Hop{Peer: p, Span: server.Span}, fmt.Sprintf("row %d of a canary of blocks %v is another at %s", v.Row, server.Span, short(v.By)))
		}
	}
	if !found.lied {
		found.right = found.right || v.Result == audit.Judged
		return found, nil
	}
	row := 0
	for row < len(gave)-1 && gave[row] == v.Right[row] {
		row++
	}
	if found.accusation = c.Word(row, gave[row]); receipt == nil {
		return found, nil
	}
	found.accusation, err = c.Accuse(gave, row, receipt, e.cfg.Manifest.Hidden, e.cfg.Verify)
	return found, err
}

// ofCanary is what a canary is replayed from.
func (e *Engine) ofCanary(c *proof.Canary) *evidence {
	return &evidence{uid: e.uid, mode: proof.CanaryMode().Hash(), opt: SessionOptions{MaxLength: proof.MaxCanaryRows}, canary: c, urgent: true}
}

// unhurried is the same for witnesses, whose users come first.
func (ev *evidence) unhurried() *evidence {
	other := *ev
	other.urgent = false
	return &other
}

// askCanary has a server compute a canary as if it were a session of a user, and sign it. A server
// that signs nothing is no error.
func (e *Engine) askCanary(ctx context.Context, ev *evidence, server swarm.Hop, rows int) ([]content.Hash, *proof.Receipt, error) {
	l, err := e.openReplay(ctx, ev, server)
	if err != nil {
		return nil, nil, err
	}
	defer l.close()
	gave, err := e.feed(ev, []*replayLink{l}, rows)
	if err != nil {
		return nil, nil, err
	}
	r, err := l.receipt()
	if err != nil {
		e.cfg.Log.Debug("a server gives no receipt of a canary", "peer", server.Peer, "reason", err)
		return gave, nil, nil
	}
	return gave, r, nil
}

// Check looks into an accusation of this engine's model that another node told. What the accuser says
// counts for nothing: the finding is what this node's own blocks, or two servers of two networks, if it can neither the
// teller nor the auditor, make of the rows; or, of a word without a receipt, what the server makes of a canary of this node's.
// A server that is found to lie is avoided by this node from then on.
func (e *Engine) Check(ctx context.Context, a *proof.Accusation, teller swarm.PeerID) trust.Finding {
	view, err := e.cfg.Directory.View(ctx, e.uid)
	if err != nil {
		return trust.Unchecked
	}
	record, ok := view.Server(a.Server)
	blocks := e.cfg.Manifest.Blocks
	if !ok || e.cfg.Verify == nil || a.Span.End > blocks {
		return trust.Unchecked
	}
	if !a.Signed() {
		held := swarm.Span{Start: max(a.Span.Start, record.Span.Start), End: min(a.Span.End, record.Span.End)}
		if held.Start >= held.End {
			return trust.Unchecked
		}
		return e.checkWord(ctx, swarm.Hop{Peer: a.Server, Span: held})
	}
	ask := &asker{ctx: ctx, e: e, ev: e.ofCanary(&a.Canary).unhurried(), span: a.Span}
	right, by := audit.Right(a.Span, int(a.Row)+1, []swarm.PeerID{a.Server, a.Auditor, teller}, e.cfg.Self, ask)
	if right == nil { // who found it may be one of the few that hold the span: it has one voice, as others have
		right, by = audit.Right(a.Span, int(a.Row)+1, []swarm.PeerID{a.Server}, e.cfg.Self, ask)
	}
	if right == nil || ctx.Err() != nil {
		return trust.Unchecked
	}
	log := e.cfg.Log.With("peer", a.Server, "blocks", a.Span.String(), "row", a.Row, "told by", teller, "by", by)
	if err := a.Proves(right, e.cfg.Manifest.Hidden); err != nil {
		log.Warn("a node accuses a server falsely", "reason", err)
		return trust.False
	}
	log.Warn("a server is proven to lie by what it signed")
	detail := fmt.Sprintf("it signed row %d of a canary of blocks %v, which is another at %s", a.Row, a.Span, short(by))
	e.convict(a.Server, detail, time.UnixMilli(a.Made).Add(trust.DefaultDocketParams().Life))
	return trust.Confirmed
}

// checkWord tries a server about which there is only a word.
func (e *Engine) checkWord(ctx context.Context, server swarm.Hop) trust.Finding {
	if a, avoided := e.trust.Judge(server.Peer, e.prefix(server.Peer), time.Now()); avoided && a.Kind == trust.Proven {
		return trust.Confirmed
	}
	finding := trust.Unchecked
	for _, rows := range canaryRows[:2] {
		found, err := e.tryCanary(ctx, server, rows)
		if ctx.Err() != nil {
			return trust.Unchecked
		}
		if found.lied {
			detail := fmt.Sprintf("row %d of a canary of blocks %v is another at %s", found.accusation.Row, server.Span, short(found.by))
			e.convict(server.Peer, detail, time.Time{})
			if e.cfg.Accuse != nil {
				e.cfg.Accuse(found.accusation)
			}
			return trust.Confirmed
		}
		if err != nil || !found.right {
			break
		}
		finding = trust.Unconfirmed
	}
	e.trust.Watch(server.Peer, time.Now()) // it may tell a canary from a session
	return finding
}
