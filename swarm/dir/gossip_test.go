package dir

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// talk is one exchange between two stores as the network has it, without a network: what both
// say goes through its bytes. It returns how many there were each way, and how many records
// the asker took.
func talk(t testing.TB, asker, teller *records, from source, at cursor, now time.Time) (sent, got, came int, next cursor) {
	return talkSigned(t, anybody, asker, teller, from, at, now)
}

func talkSigned(t testing.TB, verify verifier, asker, teller *records, from source, at cursor, now time.Time) (sent, got, came int, next cursor) {
	t.Helper()
	const stream = 2 * 60 // what opening and closing a stream takes, about
	q := wire.Pull{Version: wire.Version, Features: wire.Features, Swarm: "main", Now: now.UnixMilli(), Log: at.log, Since: at.at, Most: wire.MaxOffered}
	if e := asker.peers[asker.self]; e != nil {
		q.Own = &e.tag
	}
	frame := wire.AppendJSON(nil, wire.TypePull, q)
	sent += len(frame) + stream
	var pull wire.Pull
	if err := json.Unmarshal(frame[wire.HeadSize:], &pull); err != nil {
		t.Fatal(err)
	}
	offered, parts := teller.offer(asker.self, &pull, now)
	payload := offered.Append(nil)
	got += wire.HeadSize + len(payload) + stream
	offer, err := wire.ParseOffer(payload)
	if err != nil {
		t.Fatal(err)
	}
	c, n, all := asker.pick(offer, asker.allow(from, now), from, now)
	asker.spend(from, n, now)
	if e := asker.peers[asker.self]; e != nil && offer.Beat {
		if c.Own.Beat = e.part.Beat; offer.Static {
			c.Own.Static = e.part.Static
		}
	}
	if n > 0 || len(c.Own.Beat) > 0 {
		payload := c.Append(nil)
		sent += wire.HeadSize + len(payload)
		choice, err := wire.ParseChoice(payload, len(parts))
		if err != nil {
			t.Fatal(err)
		}
		take := func(s *records, p wire.Part, from source) {
			o, _, err := open(p, now, verify, func(who swarm.PeerID, seq uint64, hash content.Hash) (*swarm.Record, []byte, error) {
				like, raw := s.like(hash)
				return like, raw, nil
			})
			if err == nil && o.record.Peer != s.self {
				_, err = s.put(o, from, now)
				met(s, o.record.Peer) // whoever is heard of is soon reached
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(choice.Own.Beat) > 0 {
			take(teller, choice.Own, source{named: true, clock: now.UnixMilli()})
		}
		var frames []byte
		for i, p := range parts {
			if choice.Beats.Has(i) {
				if !choice.Statics.Has(i) {
					p.Static = nil
				}
				frames = p.Append(frames)
			}
		}
		got += len(frames) + (len(frames)/wire.MaxParts+1)*wire.HeadSize
		back, err := wire.ParseParts(frames)
		if err != nil || len(back) != n {
			t.Fatalf("%d records of %d: %v", len(back), n, err)
		}
		i := 0
		for j, e := range offer.All {
			if c.Beats.Has(j) {
				from.left = time.Duration(e.Left) * time.Millisecond
				take(asker, back[i], from)
				i++
			}
		}
	}
	if all {
		at = cursor{offer.Log, offer.At}
	}
	return sent, got, n, at
}

// An exchange brings what the asker lacks and nothing twice; the next one goes on where it
// stopped, and what is too much for one comes with the next.
func TestExchangesGoOn(t *testing.T) {
	teller, asker := roomy(), roomy()
	teller.self, asker.self = peerOf(1000), peerOf(1001)
	live := func(n int, seq uint64) *sealed {
		r := alive(peerOf(n))
		r.Seq = seq
		return sealOf(t, r)
	}
	put := func(n int, seq uint64) {
		teller.put(live(n, seq), source{named: true}, epoch)
		met(teller, peerOf(n))
	}
	for i := range 40 {
		put(i, 1)
	}
	asker.put(live(3, 1), source{named: true}, epoch)
	asker.put(live(4, 9), source{named: true}, epoch) // the asker knows better
	met(asker, peerOf(3), peerOf(4))
	var at cursor
	exchange := func(what string, want int, from source) {
		t.Helper()
		_, _, n, next := talk(t, asker, teller, from, at, epoch)
		if at = next; n != want {
			t.Errorf("%s: %d records come instead of %d", what, n, want)
		}
	}
	named := source{prefix: "x", named: true}
	exchange("all but what is known", 39, named)
	exchange("nothing is new", 0, named)
	put(7, 2)
	put(50, 1)
	exchange("one renewed and one new", 2, named)
	teller.suspect(peerOf(8))
	put(8, 3)
	teller.suspect(peerOf(8))
	exchange("a suspect is not told", 0, named)
	met(teller, peerOf(8))
	exchange("and is once it answers", 1, named)
	other := live(60, 1)
	teller.put(other, source{named: true}, epoch)
	exchange("who was not reached is not told", 0, named)
	met(teller, peerOf(60))
	exchange("and is once it was", 1, named)
	at = cursor{}
	exchange("everything is offered to who has forgotten, and little comes", 1, named) // the one older than ours
	teller.log++                                                                       // the teller has started anew
	put(9, 2)
	exchange("a new log is told from its start", 2, named)
	for p, e := range asker.peers {
		if f := teller.peers[p]; f != nil && e.record.Seq < f.record.Seq {
			t.Errorf("%s is at %d instead of %d", p, e.record.Seq, f.record.Seq)
		}
	}
	audit(t, asker)
	audit(t, teller)
	// As many as the asker says.
	pull := wire.Pull{Most: 10}
	seen := 0
	for range 10 {
		o, parts := teller.offer("", &pull, epoch)
		if seen += len(parts); len(parts) > 10 || o.More != (seen < 42) {
			t.Fatalf("%d offered, %d so far, more: %t", len(parts), seen, o.More)
		}
		if pull.Log, pull.Since = o.Log, o.At; !o.More {
			break
		}
	}
	if seen != 42 {
		t.Errorf("%d of 42 offered", seen)
	}
}

// What a prefix tells is bounded: at once and in the long run. The operator's own tellers are not.
func TestFloodsOfTellings(t *testing.T) {
	teller, asker := roomy(), roomy()
	teller.self, asker.self = peerOf(100_000), peerOf(100_001)
	flood := func(from, n int) {
		for i := from; i < from+n; i++ {
			r := alive(peerOf(i))
			r.Expires = epoch.Add(swarm.MaxLifetime).UnixMilli()
			teller.put(sealOf(t, r), source{named: true}, epoch)
			met(teller, peerOf(i))
		}
	}
	flood(0, 3000)
	stranger := source{prefix: "192.0.2.0/24"}
	at, now := cursor{}, epoch
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, tellings}, {0, 0}, {2 * time.Second, 2 * tellingsRate}, {time.Second, tellingsRate}, {time.Minute, tellings}} {
		now = now.Add(c.after)
		_, _, n, next := talk(t, asker, teller, stranger, at, now)
		if at = next; n != c.want {
			t.Errorf("%v later %d records are taken, want %d", c.after, n, c.want)
		}
	}
	if _, _, n, _ := talk(t, asker, teller, source{prefix: "x", named: true}, cursor{}, epoch); n < 600 {
		t.Errorf("%d records are taken from a teller of the operator", n)
	}
	for i := range 2 * maxTellers {
		asker.spend(source{prefix: fmt.Sprint(i)}, 1, epoch.Add(time.Duration(i)*time.Second))
	}
	if len(asker.told) > maxTellers {
		t.Errorf("%d prefixes are remembered", len(asker.told))
	}
}

// A teller cannot shorten a record's life for those who have other tellers, nor lengthen it beyond
// what clocks may differ by.
func TestLivesThatLiarsTell(t *testing.T) {
	s := roomy()
	r := alive(peerOf(1))
	o := sealOf(t, r)
	offer := func(left uint32, after time.Duration) {
		s.pick(&wire.Offer{All: []wire.Offered{{Tag: o.tag(), Left: left}}}, 9, source{prefix: "x"}, epoch.Add(after))
	}
	s.put(o, source{left: time.Second}, epoch)
	end := func() time.Duration { return s.peers[r.Peer].until.Sub(epoch) }
	if end() != time.Second {
		t.Errorf("lives %v", end())
	}
	if offer(60_000, 0); end() != time.Minute {
		t.Errorf("an honest teller is not heard beside one that shortens lives: %v", end())
	}
	if offer(1, 0); end() != time.Minute {
		t.Errorf("a second one shortens it again: %v", end())
	}
	if offer(1<<31, 50*time.Second); end() != time.Minute+MaxSkew {
		t.Errorf("a life can be lengthened to %v", end())
	}
}

func TestChooseTellers(t *testing.T) {
	ids := func(s string) (out []swarm.PeerID) {
		for _, r := range s {
			out = append(out, swarm.PeerID(r))
		}
		return out
	}
	for _, c := range []struct {
		initial, connected string
		turn               int
		crowded            bool
		initials, others   int
	}{
		{"B", "", 0, false, 0, 0},
		{"B", "B", 7, false, 1, 0},
		{"", "abcd", 0, false, 0, 3},
		{"B", "Babcd", 2, false, 1, 2},
		{"BCD", "BCDab", 0, false, 2, 1},
		{"BCD", "BCD", 0, false, 3, 0},
		{"BC", "Cab", 0, false, 1, 2},
		{"BC", "BCabcd", 5, true, -1, 3},
		{"BC", "BC", 0, true, 2, 0},
	} {
		got := chooseTellers("me", ids(c.initial), ids(c.connected), 3, c.turn, c.crowded)
		initials := 0
		for i, p := range got {
			if slices.Contains(ids(c.initial), p) {
				initials++
			}
			if slices.Contains(got[:i], p) || !slices.Contains(ids(c.connected), p) {
				t.Errorf("%+v: %v", c, got)
			}
		}
		if c.initials < 0 { // in a crowd it is as the lots fall
			c.initials, c.others = initials, 3-initials
		}
		if initials != c.initials || len(got)-initials != c.others {
			t.Errorf("%+v: %v", c, got)
		}
	}
	// One teller changes each turn, all are asked in the long run, and who comes or goes
	// disturbs the choice no more than it must.
	all := ids("abcdefghijklmnopqrstuvwxyz")
	asked := map[swarm.PeerID]int{}
	before := chooseTellers("me", nil, all, 3, 0, true)
	for turn := 1; turn < 400; turn++ {
		now := chooseTellers("me", nil, all, 3, turn, true)
		kept := 0
		for _, p := range now {
			asked[p]++
			if slices.Contains(before, p) {
				kept++
			}
		}
		if kept < 1 {
			t.Fatalf("turn %d: %v becomes %v", turn, before, now)
		}
		gone := slices.DeleteFunc(slices.Clone(all), func(p swarm.PeerID) bool { return p == now[0] })
		if then := chooseTellers("me", nil, gone, 3, turn, true); !slices.Contains(then, now[1]) || !slices.Contains(then, now[2]) {
			t.Fatalf("turn %d: %v becomes %v when one is gone", turn, now, then)
		}
		before = now
	}
	for _, p := range all {
		if asked[p] < 15 || asked[p] > 100 {
			t.Errorf("%s is asked %d times of %d", p, asked[p], 3*400)
		}
	}
}
