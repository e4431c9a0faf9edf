package dir

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

var epoch = time.UnixMilli(1_800_000_000_000)

// told is a record of a peer, issued some time after epoch.
func told(p swarm.PeerID, seq uint64, issued, life time.Duration) *swarm.Record {
	r := record(swarm.Span{Start: 0, End: 2}, swarm.Online)
	at := epoch.Add(issued).UnixMilli()
	r.Peer, r.Seq, r.Issued, r.Expires = p, seq, at, at+life.Milliseconds()
	return &r
}

// bare is a record with bytes that nobody signed; still is its static part.
func bare(r *swarm.Record, still []byte) *sealed {
	return &sealed{r, wire.Part{Beat: fmt.Append(nil, r.Peer, " ", r.Seq), Static: still}, staticDomain.Of(still)}
}

// offered are the records that a store tells an asker who knows nothing.
func offered(s *records, asker swarm.PeerID) []wire.Part {
	_, parts := s.offer(asker, &wire.Pull{Most: wire.MaxOffered}, epoch)
	return parts
}

// roomy is a store that any one teller may fill.
func roomy() *records {
	s := newRecords("self")
	s.limits.teller, s.limits.prefix, s.limits.unseen = 8, 8, 8
	s.manifests.keep(model)
	return s
}

// met makes peers of a store such as were reached at an address of theirs.
func met(s *records, peers ...swarm.PeerID) {
	for _, p := range peers {
		s.reach(p, netip.MustParseAddr("192.0.2.1"), true, epoch)
	}
}

func TestPut(t *testing.T) {
	s := roomy()
	for _, c := range []struct {
		what string
		r    *swarm.Record
		want bool
	}{
		{"the first", told("p", 5, 0, time.Minute), true},
		{"the same again", told("p", 5, 0, time.Minute), false},
		{"the same sequence with a longer life", told("p", 5, 0, time.Hour), false},
		{"an older one that lives longer", told("p", 4, 0, time.Hour), false},
		{"a newer one", told("p", 6, 0, time.Minute), true},
		{"another peer", told("q", 1, 0, time.Minute), true},
	} {
		if got, err := s.put(bare(c.r, []byte("x")), source{}, epoch); got != c.want || err != nil {
			t.Errorf("%s: %v %v, want %v", c.what, got, err, c.want)
		}
	}
	for i := range wire.MaxOffered {
		s.put(bare(told(swarm.PeerID(fmt.Sprint(i)), 1, 0, time.Minute), nil), source{}, epoch)
	}
	if _, err := s.put(bare(told("new", 1, 0, time.Minute), nil), source{}, epoch); !errors.Is(err, ErrFull) || len(s.peers) != wire.MaxOffered {
		t.Errorf("a full store of %d: %v", len(s.peers), err)
	}
	if news, err := s.put(bare(told("p", 7, 0, time.Minute), nil), source{}, epoch); !news || err != nil {
		t.Errorf("a known peer in a full store: %v %v", news, err)
	}
	later := epoch.Add(2 * time.Minute)
	if news, err := s.put(bare(told("new", 1, 2*time.Minute, time.Minute), nil), source{}, later); !news || err != nil || len(s.peers) != 1 {
		t.Errorf("a full store of expired records: %v %v, %d left", news, err, len(s.peers))
	}
}

// How long a record of a minute lives by our clock, by when it was issued and received.
func TestLifetime(t *testing.T) {
	const minute = 60
	for _, c := range []struct {
		what             string
		issued, received int // seconds
		want             int // seconds of life after the receipt
	}{
		{"clocks agree", 0, 0, minute},
		{"their clock is ahead", 20, 0, minute},
		{"their clock is behind", -20, 0, minute},
		{"told by somebody after 40 s", 0, 40, 50},
		{"told by somebody after 80 s", 0, 80, 10},
	} {
		s := roomy()
		now := epoch.Add(time.Duration(c.received) * time.Second)
		s.put(bare(told("p", 1, time.Duration(c.issued)*time.Second, time.Minute), nil), source{}, now)
		end := now.Add(time.Duration(c.want) * time.Second)
		if len(s.view(model.UID(), end.Add(-time.Millisecond)).Servers) != 1 || s.prune(end.Add(-time.Millisecond)) {
			t.Errorf("%s: gone before %d s", c.what, c.want)
		}
		if len(s.view(model.UID(), end).Servers) != 0 || !s.prune(end) || len(s.peers) != 0 {
			t.Errorf("%s: alive after %d s", c.what, c.want)
		}
	}
}

func TestSuspicion(t *testing.T) {
	s := roomy()
	seen := func() int { return len(s.views(epoch)) }
	s.put(bare(told("p", 1, 0, time.Minute), []byte("1")), source{}, epoch)
	met(s, "p")
	if s.suspect("nobody") || !s.suspect("p") || s.suspect("p") || seen() != 0 || len(offered(s, "")) != 0 {
		t.Error("a suspect is seen or told")
	}
	if len(offered(s, "p")) != 1 {
		t.Error("a suspect does not hear its own record")
	}
	if s.put(bare(told("p", 1, 0, time.Minute), []byte("1")), source{}, epoch); seen() != 0 {
		t.Error("hearing the same again clears a suspicion")
	}
	if at := netip.MustParseAddr("192.0.2.1"); !s.reach("p", at, true, epoch) || s.reach("p", at, true, epoch) || seen() != 1 {
		t.Error("an answer does not clear a suspicion")
	}
	s.suspect("p")
	if s.put(bare(told("p", 2, 0, time.Minute), []byte("2")), source{}, epoch); seen() != 1 {
		t.Error("a newer record does not clear a suspicion")
	}
}

func TestViews(t *testing.T) {
	s := roomy()
	other := told("q", 1, 0, time.Minute)
	other.Manifest.Name = "another"
	other.UID = other.Manifest.UID()
	s.manifests.keep(model)
	s.manifests.keep(other.Manifest)
	s.put(bare(told("p", 1, 0, time.Minute), nil), source{}, epoch)
	s.put(bare(told("o", 1, 0, time.Minute), nil), source{}, epoch)
	s.put(bare(other, nil), source{}, epoch)
	v := s.views(epoch)
	if len(v) != 2 || v[0].Manifest.Name != "another" || len(v[1].Servers) != 2 || v[1].Servers[0].Peer != "o" || !v[1].At.Equal(epoch) {
		t.Errorf("%+v", v)
	}
	if v := s.view("nothing", epoch); v.Manifest.Blocks != 0 || len(v.Servers) != 0 {
		t.Errorf("%+v", v)
	}
}

// A node without initial peers waits, then dials for ever with a growing wait.
func TestWatcher(t *testing.T) {
	w := watcher{lonely: 10 * time.Second}
	connected := func(s int) int {
		if s < 3 || s >= 200 {
			return 1
		}
		return 0
	}
	var got string
	for s := range 203 {
		if a := w.step(epoch.Add(time.Duration(s)*time.Second), connected(s)); a != rest {
			got += fmt.Sprintf("%d:%s ", s, map[action]string{lost: "lost", dial: "dial", back: "back"}[a])
		}
	}
	if want := "3:lost 13:dial 23:dial 43:dial 73:dial 103:dial 133:dial 163:dial 193:dial 200:back "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
