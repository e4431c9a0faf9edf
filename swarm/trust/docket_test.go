package trust

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/proof"
)

// signed is a signature of tests: who signed what is all that it says.
func signed(p swarm.PeerID, domain string, payload []byte) []byte {
	h := content.Sum(fmt.Appendf(nil, "%s|%s|%x", p, domain, payload))
	return h[:]
}

func checked(p swarm.PeerID, domain string, payload, sig []byte) error {
	if !bytes.Equal(sig, signed(p, domain, payload)) {
		return errors.New("bad signature")
	}
	return nil
}

// accusation is of a wrong row 0 of one; n tells accusations apart.
func accusation(by, of swarm.PeerID, n int, at time.Time) proof.Accusation {
	c := proof.Canary{Manifest: content.Hash{1}, Span: swarm.Span{End: 3}, Auditor: by, Server: of, Made: at.UnixMilli(), Salt: content.Hash{byte(n), byte(n >> 8)}}
	out := content.Hash{7}
	r := proof.Receipt{Mode: proof.CanaryMode().Hash(), Manifest: c.Manifest, Span: c.Span, Rows: 1, Nonce: c.Nonce()}
	var tree content.Roots
	var in []float32
	leaf := proof.Leaf{Mode: r.Mode, Manifest: c.Manifest, Span: c.Span, Parent: proof.NoParent, In: proof.HashRow(c.Fill(in, 0, 1, 4)), Out: out}
	h := leaf.Hash()
	tree.Add(content.LeafOf(h[:]))
	r.Root = tree.Root()
	r.Sig = signed(of, proof.ReceiptDomain, r.Payload())
	a, err := c.Accuse([]content.Hash{out}, 0, &r, 4, checked)
	if err != nil {
		panic(err)
	}
	return a
}

func rawOf(a proof.Accusation) []byte { return a.Append(nil) }

// word is one without a receipt.
func word(by, of swarm.PeerID, n int, at time.Time) proof.Accusation {
	a := accusation(by, of, n, at)
	return a.Word(0, content.Hash{7})
}

func docket(change func(*DocketParams)) *Docket {
	p := DefaultDocketParams()
	if change != nil {
		change(&p)
	}
	return NewDocket("self", checked, p)
}

// What is heard, from whom, and why not.
func TestHear(t *testing.T) {
	type heard struct {
		a      proof.Accusation
		by     swarm.PeerID
		prefix string
	}
	broken := accusation("a", "s", 1, t0)
	broken.Sig = bytes.Clone(broken.Sig)
	broken.Sig[0] ^= 1
	for _, c := range []struct {
		name   string
		before []heard
		then   heard
		want   error // nil: heard
	}{
		{"one with a receipt", nil, heard{accusation("a", "s", 1, t0), "a", ""}, nil},
		{"handed on", nil, heard{accusation("a", "s", 1, t0), "b", ""}, nil},
		{"a word", nil, heard{word("a", "s", 1, t0), "a", ""}, nil},
		{"a word handed on", nil, heard{word("a", "s", 1, t0), "b", ""}, ErrHands},
		{"about this node", nil, heard{accusation("a", "self", 1, t0), "a", ""}, ErrKnown},
		{"twice", []heard{{accusation("a", "s", 1, t0), "a", ""}}, heard{accusation("a", "s", 1, t0), "b", ""}, ErrKnown},
		{"of one server by one teller again", []heard{{accusation("a", "s", 1, t0), "a", ""}}, heard{accusation("a", "s", 2, t0), "a", ""}, ErrKnown},
		{"of one server by another", []heard{{accusation("a", "s", 1, t0), "a", ""}}, heard{accusation("b", "s", 2, t0), "b", ""}, nil},
		{"a receipt after a word", []heard{{word("a", "s", 1, t0), "a", ""}}, heard{accusation("a", "s", 2, t0), "a", ""}, nil},
		{"a week old", nil, heard{accusation("a", "s", 1, t0.Add(-7*24*time.Hour)), "a", ""}, ErrOld},
		{"from the future", nil, heard{accusation("a", "s", 1, t0.Add(time.Hour)), "a", ""}, ErrOld},
		{"a clock a little ahead", nil, heard{accusation("a", "s", 1, t0.Add(time.Minute)), "a", ""}, nil},
		{"after a broken one", []heard{{broken, "a", "net"}}, heard{accusation("a", "s", 2, t0), "a", "net"}, ErrMuted},
		{"beside a broken one", []heard{{broken, "a", "net"}}, heard{accusation("b", "s", 2, t0), "b", "net"}, nil},
		{"after three of that network", []heard{{broken, "a", "net"}, {broken, "b", "net"}, {broken, "c", "net"}}, heard{accusation("d", "s", 2, t0), "d", "net"}, ErrMuted},
		{"the fifth of a peer", []heard{{accusation("a", "1", 1, t0), "a", ""}, {accusation("a", "2", 1, t0), "a", ""}, {accusation("a", "3", 1, t0), "a", ""}, {accusation("a", "4", 1, t0), "a", ""}}, heard{accusation("a", "5", 1, t0), "a", ""}, ErrMany},
		{"the fifth of a server", []heard{{accusation("a", "s", 1, t0), "a", ""}, {accusation("b", "s", 2, t0), "b", ""}, {accusation("c", "s", 3, t0), "c", ""}, {accusation("d", "s", 4, t0), "d", ""}}, heard{accusation("e", "s", 5, t0), "e", ""}, ErrMany},
	} {
		d := docket(nil)
		for _, h := range c.before {
			d.Hear(h.a.Append(nil), h.by, h.prefix, t0)
		}
		if err := d.Hear(c.then.a.Append(nil), c.then.by, c.then.prefix, t0); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	d := docket(nil)
	if err := d.Hear([]byte("no accusation"), "a", "", t0); !errors.Is(err, proof.ErrAccusation) {
		t.Error(err)
	}
	if err := d.Hear(broken.Append(nil), "a", "", t0); !errors.Is(err, ErrMuted) {
		t.Errorf("after bytes that are none: %v", err)
	}
}

// What has a receipt is looked into first. What is found so is told, and nothing else; what is
// false costs its teller; what cannot be looked into is tried again later.
func TestSettle(t *testing.T) {
	d, now := docket(nil), t0
	hear := func(a proof.Accusation, by swarm.PeerID) {
		t.Helper()
		if err := d.Hear(a.Append(nil), by, "", now); err != nil {
			t.Fatal(err)
		}
	}
	next := func() string {
		a, by, wait, ok := d.Next(now)
		if !ok {
			return fmt.Sprintf("none for %v", wait.Sub(now))
		}
		return fmt.Sprintf("%s of %s by %s", map[bool]string{true: "receipt", false: "word"}[a.Signed()], a.Server, by)
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	w, r1, r2 := word("a", "w", 1, t0), accusation("b", "s", 2, t0), accusation("c", "s", 3, t0)
	hear(w, "a")
	hear(r1, "x")
	hear(r2, "c")
	want(next(), "receipt of s by x")
	want(next(), "receipt of s by c")
	want(next(), "word of w by a")
	if d.Settle(&r1, False, now) {
		t.Error("what is false is told")
	}
	if !d.Settle(&r2, Confirmed, now) || d.Settle(&w, Unchecked, now) {
		t.Error("what is confirmed is not told, or what is not is")
	}
	if list, at := d.Tell(0, now); len(list) != 1 || at != 1 || !bytes.Equal(list[0], r2.Append(nil)) {
		t.Errorf("told are %x up to %d", list, at)
	}
	if list, _ := d.Tell(1, now); len(list) != 0 {
		t.Error("told again")
	}
	if err := d.Hear(r1.Append(nil), "b", "", now); !errors.Is(err, ErrKnown) {
		t.Errorf("a false one by another: %v", err)
	}
	if err := d.Hear(rawOf(word("x", "y", 4, now)), "x", "", now); !errors.Is(err, ErrMuted) {
		t.Errorf("who told it: %v", err)
	}
	if next := accusation("e", "s", 9, now); !errors.Is(d.Hear(next.Append(nil), "e", "", now), ErrKnown) {
		t.Error("a server whose lie is told is looked into again")
	}
	_, _, wait, _ := d.Next(now)
	want(wait.Sub(now).String(), "5s")
	now = now.Add(5 * time.Second)
	want(next(), "word of w by a")
	d.Settle(&w, Unchecked, now)
	_, _, wait, _ = d.Next(now)
	want(wait.Sub(now).String(), "10s")
	now = now.Add(10 * time.Second)
	want(next(), "word of w by a")
	d.Settle(&w, Unconfirmed, now)
	if err := d.Hear(rawOf(word("v", "w", 5, now)), "v", "", now); !errors.Is(err, ErrKnown) {
		t.Errorf("a word about a server that was just found right: %v", err)
	}
	for i := range 3 { // of four that nobody finds so
		o := word("a", swarm.PeerID(fmt.Sprint(i)), i, now)
		hear(o, "a")
		next()
		d.Settle(&o, Unconfirmed, now)
	}
	o := word("a", "again", 8, now)
	if err := d.Hear(o.Append(nil), "a", "", now); !errors.Is(err, ErrMany) {
		t.Errorf("the fifth word of who is not confirmed: %v", err)
	}
	hear(accusation("a", "again", 8, now), "a") // a receipt is another thing
	if now = now.Add(25 * time.Hour); d.Hear(rawOf(word("a", "other", 9, now)), "a", "", now) != nil {
		t.Error("words are not heard a day later")
	}
	now = t0.Add(7*24*time.Hour + time.Minute)
	if list, _ := d.Tell(0, now); len(list) != 0 {
		t.Error("what is a week old is told")
	}
}

// This node's own findings are told, a receipt instead of a word; a pardon ends that, and what others tell of it is not taken up again.
func TestProve(t *testing.T) {
	d := docket(func(p *DocketParams) { p.Told = 3 })
	w, r := word("self", "s", 1, t0), accusation("self", "s", 2, t0)
	if !d.Prove(&w, t0) || d.Prove(&w, t0) || !d.Prove(&r, t0) || d.Prove(&r, t0) || d.Prove(&w, t0) {
		t.Error("a receipt takes the place of a word, and nothing else of anything")
	}
	d.Pardon("s", t0)
	if list, _ := d.Tell(0, t0); len(list) != 0 {
		t.Error("told of a server that was pardoned")
	}
	if err := d.Hear(r.Append(nil), "b", "", t0); !errors.Is(err, ErrKnown) {
		t.Errorf("told back after a pardon: %v", err)
	}
	for i := range 5 {
		o := accusation("self", swarm.PeerID(fmt.Sprint(i)), i, t0)
		d.Prove(&o, t0)
	}
	if list, at := d.Tell(0, t0); len(list) != 3 || at != 7 {
		t.Errorf("%d are told, up to %d", len(list), at)
	}
}

// However many identities of some networks tell however much, what is kept is bounded, a prefix has its
// share, and who comes new with a receipt is heard.
func TestDocketFlood(t *testing.T) {
	d, now := docket(nil), t0
	looked := 0
	count := func(p swarm.PeerID, domain string, payload, sig []byte) error {
		looked++
		return checked(p, domain, payload, sig)
	}
	d.verify = count
	for i := range 1200 {
		peer, prefix := swarm.PeerID(fmt.Sprint("p", i)), fmt.Sprint("net ", i%30)
		a := word(peer, swarm.PeerID(fmt.Sprint("s", i%50)), i, now)
		if i%2 == 0 {
			a = accusation(peer, swarm.PeerID(fmt.Sprint("s", i%50)), i, now)
		}
		d.Hear(a.Append(nil), peer, prefix, now)
	}
	waiting, _ := d.Counts()
	if p := d.p; waiting > p.Waiting || len(d.names) > p.Names || len(d.done) > p.Names {
		t.Errorf("%d wait, of %d names, %d are remembered", waiting, len(d.names), len(d.done))
	}
	newcomer := accusation("new", "liar", 1, now)
	if err := d.Hear(newcomer.Append(nil), "new", "a new net", now); err != nil {
		t.Errorf("a newcomer with a receipt is not heard: %v", err)
	}
	d = docket(nil)
	d.verify = count
	looked = 0
	for i := range 1000 { // one prefix, an identity each
		a := accusation(swarm.PeerID(fmt.Sprint("q", i)), swarm.PeerID(fmt.Sprint("s", i)), i, now)
		d.Hear(a.Append(nil), a.Auditor, "net", now)
	}
	if waiting, _ := d.Counts(); waiting != d.p.OfPrefix || looked > int(d.p.Looks) {
		t.Errorf("%d of one prefix wait, after %d signatures", waiting, looked)
	}
}

// Evidence of an old lie ends when it would have ended for who found it first.
func TestProvenByOldEvidence(t *testing.T) {
	b := NewBook(DefaultParams())
	b.Observe(Observation{Peer: "p", Kind: Proven, Until: t0.Add(time.Hour), Detail: "a canary"}, t0)
	if a, ok := b.Judge("p", "", t0); !ok || !a.Until.Equal(t0.Add(time.Hour)) || !strings.Contains(a.Reason, "a canary") {
		t.Errorf("%+v, %v", a, ok)
	}
	if _, ok := b.Judge("p", "", t0.Add(time.Hour)); ok {
		t.Error("avoided after its time")
	}
}
