package dir

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

func TestOpen(t *testing.T) {
	a, b := newHost(t, p2p.Config{}), newHost(t, p2p.Config{})
	now := epoch
	sealed := func(change func(*swarm.Record)) []byte {
		r := record(swarm.Span{Start: 0, End: 2}, swarm.Online)
		r.Protocol, r.Peer, r.Seq, r.Issued, r.Expires = wire.Version, a.ID(), 7, now.UnixMilli(), now.Add(time.Minute).UnixMilli()
		change(&r)
		signed, err := seal(a.Sign, &r)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	issued := func(d time.Duration) func(*swarm.Record) {
		return func(r *swarm.Record) {
			r.Issued += d.Milliseconds()
			r.Expires += d.Milliseconds()
		}
	}
	for _, c := range []struct {
		what   string
		signed []byte
		want   error
		kind   string
	}{
		{"good", sealed(func(*swarm.Record) {}), nil, ""},
		{"a little ahead", sealed(issued(29 * time.Second)), nil, ""},
		{"a little behind", sealed(issued(-89 * time.Second)), nil, ""},
		{"far ahead", sealed(issued(31 * time.Second)), ErrClock, "clock"},
		{"far behind", sealed(issued(-91 * time.Second)), ErrExpired, "expired"},
		{"another's name", sealed(func(r *swarm.Record) { r.Peer = b.ID() }), ErrSignature, "signature"},
		{"nobody's name", sealed(func(r *swarm.Record) { r.Peer = "nobody" }), ErrSignature, "signature"},
		{"its own name in another spelling", sealed(func(r *swarm.Record) { r.Peer = spelled(t, a.ID()) }), ErrSignature, "signature"},
		{"a round trip to another spelling", sealed(func(r *swarm.Record) { r.NextRTT = map[swarm.PeerID]float64{spelled(t, b.ID()): 1} }), swarm.ErrBadRecord, "invalid"},
		{"a round trip", sealed(func(r *swarm.Record) { r.NextRTT = map[swarm.PeerID]float64{b.ID(): 1} }), nil, ""},
		{"another version", sealed(func(r *swarm.Record) { r.Protocol = 1 }), ErrProtocol, "protocol"},
		{"far-future expiry", sealed(func(r *swarm.Record) { r.Expires += (24 * time.Hour).Milliseconds() }), swarm.ErrBadRecord, "invalid"},
		{"bad span", sealed(func(r *swarm.Record) { r.Span.End = swarm.MaxBlocks + 1 }), swarm.ErrBadRecord, "invalid"},
		{"no JSON", []byte("x"), swarm.ErrBadRecord, "invalid"},
		{"no record", []byte(`{"payload":"eA=="}`), swarm.ErrBadRecord, "invalid"},
		{"huge", bytes.Repeat([]byte(" "), 2*swarm.MaxRecordBytes+1), swarm.ErrBadRecord, "invalid"},
	} {
		r, who, err := open(c.signed, now, a.Verify, nil)
		if !errors.Is(err, c.want) || (err == nil) != (r != nil) || err == nil && who != a.ID() {
			t.Errorf("%s: %v %v %v", c.what, r, who, err)
		}
		if c.want != nil && kind(err) != c.kind {
			t.Errorf("%s: counted as %s, want %s", c.what, kind(err), c.kind)
		}
	}
}

// spelled is another text that libp2p reads as the same peer id.
func spelled(t *testing.T, p swarm.PeerID) swarm.PeerID {
	t.Helper()
	id, err := peer.Decode(string(p))
	if err != nil {
		t.Fatal(err)
	}
	other := peer.ToCid(id).String()
	if again, err := peer.Decode(other); err != nil || again != id || other == string(p) {
		t.Fatalf("%s is no other spelling of %s: %v", other, p, err)
	}
	return swarm.PeerID(other)
}

// Whatever byte is changed, the record is refused, or is the same record still: base64 and
// JSON leave some freedom in writing.
func TestTampering(t *testing.T) {
	a := newHost(t, p2p.Config{})
	r := record(swarm.Span{Start: 0, End: 2}, swarm.Online)
	r.Protocol, r.Peer, r.Seq, r.Issued, r.Expires = wire.Version, a.ID(), 7, epoch.UnixMilli(), epoch.Add(time.Minute).UnixMilli()
	good, err := seal(a.Sign, &r)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(r)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if got, _, err := open(bad, epoch, a.Verify, nil); err == nil {
			if b, _ := json.Marshal(got); !bytes.Equal(b, want) {
				t.Errorf("byte %d of %d changed and the record is taken as %s", i, len(good), b)
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	r := record(swarm.Span{Start: 0, End: 2}, swarm.Online)
	r.Protocol, r.Peer, r.Issued, r.Expires = wire.Version, "p", epoch.UnixMilli(), epoch.Add(time.Minute).UnixMilli()
	signed, err := seal(func(string, []byte) ([]byte, error) { return []byte("sig"), nil }, &r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signed)
	f.Add([]byte(`{"payload":"e30=","sig":""}`))
	f.Add([]byte(`{}`))
	yes := func(swarm.PeerID, string, []byte, []byte) error { return nil } // so that signatures stop nothing
	f.Fuzz(func(t *testing.T, b []byte) {
		r, _, err := open(b, epoch, yes, nil)
		if err != nil {
			kind(err)
			return
		}
		if err := r.Validate(); err != nil {
			t.Errorf("an invalid record was opened: %v", err)
		}
		if len(r.Addrs) > swarm.MaxAddrs || p2p.CheckID(r.Peer) == nil && len(r.Peer) > 64 {
			t.Errorf("%d addresses of %q", len(r.Addrs), r.Peer)
		}
		s := newRecords("self")
		if _, err := s.put(r, b, source{}, epoch); err != nil {
			t.Error(err)
		}
		if s.total.bytes < len(b) {
			t.Errorf("a record of %d bytes counts for %d", len(b), s.total.bytes)
		}
		audit(t, s)
		for _, e := range s.peers {
			if life := e.until.Sub(epoch); life > swarm.MaxLifetime {
				t.Errorf("lives %v", life)
			}
		}
		s.views(epoch)
	})
}
