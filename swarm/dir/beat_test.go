package dir

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/encoding/protowire"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// peerOf is a peer with a key made of a number; nobody has its private half.
func peerOf(n int) swarm.PeerID {
	b := append([]byte{0, 36, 8, 1, 18, 32}, make([]byte, 32)...)
	b[37], b[36], b[35] = byte(n), byte(n>>8), byte(n>>16)
	id, err := peer.IDFromBytes(b)
	if err != nil {
		panic(err)
	}
	return swarm.PeerID(id.String())
}

// alive completes a record as Announce does.
func alive(p swarm.PeerID) swarm.Record {
	r := record(swarm.Span{Start: 0, End: 2}, swarm.Online)
	r.Protocol, r.Peer, r.Seq, r.Issued, r.Expires = wire.Version, p, 7, epoch.UnixMilli(), epoch.Add(time.Minute).UnixMilli()
	r.Manifest = swarm.Manifest{} // it does not travel
	return r
}

// full is a record that says all there is to say, each figure as long as it may be.
func full() swarm.Record {
	a, b, c := 812.5, 4000.25, math.Nextafter(swarm.MaxRate, 0)
	r := alive(peerOf(1))
	r.Features, r.Addrs, r.Span, r.State, r.Seq = 6, []string{"/ip4/10.0.0.1/tcp/4001"}, swarm.Span{Start: 4094, End: 4096}, swarm.Online, math.MaxUint64
	r.Issued, r.Expires = math.MaxInt64/2-1_800_000, math.MaxInt64/2
	r.PublicName, r.Version, r.Rates, r.Throughput = "Ada's <box>", "whorl/0.1", swarm.Rates{InferenceRPS: &a, ForwardRPS: &b, NetworkRPS: &c}, c
	r.CacheTotal, r.CacheLeft, r.MaxLength, r.Relay = swarm.MaxTokens, swarm.MaxTokens, 2048, true
	r.NextRTT = map[swarm.PeerID]float64{peerOf(2): 1.25}
	r.Adapters = []swarm.Adapter{{Name: "poet", Digest: "ab"}}
	r.Load = &swarm.Load{Busy: 1, Sessions: 1 << 20, Waiting: 1 << 20}
	r.Next = &swarm.Intent{Span: swarm.Span{Start: 4094, End: 4096}, Open: true}
	return r
}

func unsigned(string, []byte) ([]byte, error) { return make([]byte, 64), nil }

func anybody(swarm.PeerID, string, []byte, []byte) error { return nil }

func sealOf(t testing.TB, r swarm.Record) *sealed {
	t.Helper()
	s, err := seal(unsigned, &r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Whatever a record says comes across, and no heartbeat has more than 256 bytes.
func TestRecordsTravelWhole(t *testing.T) {
	bare := alive(peerOf(3))
	busy := full()
	busy.Issued, busy.Expires, busy.Load = epoch.UnixMilli(), epoch.UnixMilli()+60_000, &swarm.Load{Busy: 0.123}
	fetching := full()
	fetching.State, fetching.Load = swarm.Joining, nil
	fetching.Loading = swarm.NewLoading(swarm.MaxLoading-2*loadingStep, swarm.MaxLoading-loadingStep, swarm.MaxLoading-loadingStep)
	stuck := bare
	stuck.State, stuck.Loading = swarm.Joining, swarm.NewLoading(0, loadingStep, 0)
	for _, want := range []swarm.Record{bare, full(), busy, fetching, stuck} {
		s := sealOf(t, want)
		r, hash, payload, sig, err := parseBeat(s.part.Beat)
		if err != nil || hash != s.hash || len(sig) != 64 {
			t.Fatal(err)
		}
		still, err := decodeStatic(s.part.Static)
		if err != nil {
			t.Fatal(err)
		}
		if still.into(r); !reflect.DeepEqual(*r, want) {
			t.Errorf("%+v is read as %+v", want, *r)
		}
		if len(s.part.Beat) > wire.MaxBeat || len(payload) > math.MaxUint8 {
			t.Errorf("a heartbeat of %d bytes", len(s.part.Beat))
		}
		t.Logf("heartbeat %d bytes, static part %d", len(s.part.Beat), len(s.part.Static))
	}
	odd := full()
	odd.Loading = swarm.NewLoading(3*loadingStep-1, 3*loadingStep+1, 10)
	if s := sealOf(t, odd); s.record.Load != nil || !reflect.DeepEqual(s.record.Loading, swarm.NewLoading(2*loadingStep, 4*loadingStep, loadingStep)) {
		t.Errorf("a node knows its own progress in another way than others do: %+v", s.record.Loading)
	}
	rough := full()
	rough.Load.Busy = 1.0 / 3
	if s := sealOf(t, rough); s.record.Load.Busy != 0.333 || rough.Load.Busy != 1.0/3 {
		t.Error("a node knows its own record in another way than others do")
	}
}

// Records are read by nodes of other versions: what the present version writes lies here, and
// so do bytes with members that it does not know.
func TestRecordGolden(t *testing.T) {
	const file = "testdata/record_v2.json"
	r := full()
	r.Issued, r.Expires = epoch.UnixMilli(), epoch.UnixMilli()+60_000
	s := sealOf(t, r)
	var golden struct {
		Beat   string          `json:"heartbeat"` // hex, before the signature
		Static json.RawMessage `json:"static"`
		Hash   content.Hash    `json:"hash"` // of the static part
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	_, _, payload, _, err := parseBeat(s.part.Beat)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(payload); got != golden.Beat || string(golden.Static) != string(s.part.Static) || golden.Hash != s.hash {
		t.Errorf("a record is written in another form than %s (keep that file and add one):\n%s\n%s\n%v", file, got, s.part.Static, s.hash)
	}
	future := payload
	future = protowire.AppendVarint(protowire.AppendTag(future, 18, protowire.VarintType), 77)
	future = protowire.AppendBytes(protowire.AppendTag(future, 16, protowire.BytesType), []byte("new"))
	future = protowire.AppendFixed32(protowire.AppendTag(future, 17, protowire.Fixed32Type), 1)
	still := []byte(strings.Replace(string(s.part.Static), "{", `{"invented":{"later":1},`, 1))
	beat := append(append([]byte{byte(len(future))}, future...), make([]byte, 64)...)
	if got, hash, _, _, err := parseBeat(beat); err != nil || hash != s.hash || got.Seq != r.Seq || *got.Next != *r.Next {
		t.Errorf("a heartbeat of a later version: %+v %v", got, err)
	}
	if got, err := decodeStatic(still); err != nil || got.UID != r.UID || got.Span != r.Span {
		t.Errorf("a static part of a later version: %+v %v", got, err)
	}
}

func TestOpen(t *testing.T) {
	a, b := newHost(t, p2p.Config{}), newHost(t, p2p.Config{})
	now := epoch
	sealed := func(change func(*swarm.Record)) wire.Part {
		r := alive(a.ID())
		change(&r)
		s, err := seal(a.Sign, &r)
		if err != nil {
			t.Fatal(err)
		}
		return s.part
	}
	issued := func(d time.Duration) func(*swarm.Record) {
		return func(r *swarm.Record) {
			r.Issued += d.Milliseconds()
			r.Expires += d.Milliseconds()
		}
	}
	good := sealed(func(*swarm.Record) {})
	other := sealed(func(r *swarm.Record) { r.PublicName = "another" })
	for _, c := range []struct {
		what string
		part wire.Part
		want error
		kind string
	}{
		{"good", good, nil, ""},
		{"a little ahead", sealed(issued(29 * time.Second)), nil, ""},
		{"a little behind", sealed(issued(-89 * time.Second)), nil, ""},
		{"far ahead", sealed(issued(31 * time.Second)), ErrClock, "clock"},
		{"far behind", sealed(issued(-91 * time.Second)), ErrExpired, "expired"},
		{"another's name", sealed(func(r *swarm.Record) { r.Peer = b.ID() }), ErrSignature, "signature"},
		{"a round trip to another spelling", sealed(func(r *swarm.Record) { r.NextRTT = map[swarm.PeerID]float64{spelled(t, b.ID()): 1} }), swarm.ErrBadRecord, "invalid"},
		{"a round trip", sealed(func(r *swarm.Record) { r.NextRTT = map[swarm.PeerID]float64{b.ID(): 1} }), nil, ""},
		{"another version", sealed(func(r *swarm.Record) { r.Protocol = 1 }), ErrProtocol, "protocol"},
		{"far-future expiry", sealed(func(r *swarm.Record) { r.Expires += (24 * time.Hour).Milliseconds() }), swarm.ErrBadRecord, "invalid"},
		{"bad span", sealed(func(r *swarm.Record) { r.Span.End = swarm.MaxBlocks + 1 }), swarm.ErrBadRecord, "invalid"},
		{"more free cache than there is", sealed(func(r *swarm.Record) { r.CacheLeft = r.CacheTotal + 1 }), swarm.ErrBadRecord, "invalid"},
		{"more fetched than there is", sealed(func(r *swarm.Record) { r.Loading = &swarm.Loading{Total: swarm.MaxLoading} }), swarm.ErrBadRecord, "invalid"},
		{"no static part", wire.Part{Beat: good.Beat}, ErrStatic, "static"},
		{"another static part", wire.Part{Beat: good.Beat, Static: other.Static}, swarm.ErrBadRecord, "invalid"},
		{"no JSON", wire.Part{Beat: good.Beat, Static: []byte("x")}, swarm.ErrBadRecord, "invalid"},
		{"nothing", wire.Part{}, swarm.ErrBadRecord, "invalid"},
		{"no heartbeat", wire.Part{Beat: []byte("\x02xxxx")}, swarm.ErrBadRecord, "invalid"},
		{"huge", wire.Part{Beat: make([]byte, wire.MaxBeat+1)}, swarm.ErrBadRecord, "invalid"},
	} {
		s, who, err := open(c.part, now, a.Verify, nil)
		if !errors.Is(err, c.want) || (err == nil) != (s != nil) || err == nil && (who != a.ID() || s.record.Peer != who) {
			t.Errorf("%s: %v %v %v", c.what, s, who, err)
		}
		if c.want != nil && kind(err) != c.kind {
			t.Errorf("%s: counted as %s, want %s", c.what, kind(err), c.kind)
		}
	}
	// A static part that is known need not come again.
	first, _, err := open(good, now, a.Verify, nil)
	if err != nil {
		t.Fatal(err)
	}
	later := sealed(func(r *swarm.Record) { r.Seq, r.State, r.CacheLeft = 8, swarm.Draining, 1 })
	second, _, err := open(wire.Part{Beat: later.Beat}, now, a.Verify, func(who swarm.PeerID, seq uint64, hash content.Hash) (*swarm.Record, []byte, error) {
		if who != a.ID() || seq != 8 || hash != first.hash {
			t.Errorf("asked for %v of %s, sequence %d", hash, who, seq)
		}
		return first.record, first.part.Static, nil
	})
	if err != nil || second.record.State != swarm.Draining || second.record.CacheLeft != 1 || second.record.UID != model.UID() || !bytes.Equal(second.part.Static, good.Static) {
		t.Errorf("%+v %v", second, err)
	}
	r := alive(a.ID())
	r.PublicName = strings.Repeat("x", wire.MaxStatic)
	if _, err := seal(a.Sign, &r); !errors.Is(err, swarm.ErrBadRecord) {
		t.Errorf("a static part beyond its limit: %v", err)
	}
	for _, p := range []swarm.PeerID{"nobody", ""} {
		r := alive(p)
		if _, err := seal(a.Sign, &r); !errors.Is(err, swarm.ErrBadRecord) {
			t.Errorf("a record of %q: %v", p, err)
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

// Whatever byte is changed, the record is refused.
func TestTampering(t *testing.T) {
	a := newHost(t, p2p.Config{})
	r := alive(a.ID())
	good, err := seal(a.Sign, &r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(good.part.Beat) + len(good.part.Static) {
		bad := wire.Part{Beat: bytes.Clone(good.part.Beat), Static: bytes.Clone(good.part.Static)}
		if i < len(bad.Beat) {
			bad.Beat[i] ^= 1
		} else {
			bad.Static[i-len(bad.Beat)] ^= 1
		}
		if got, _, err := open(bad, epoch, a.Verify, nil); err == nil {
			t.Errorf("byte %d changed and the record is taken as %+v", i, got.record)
		}
	}
}

func FuzzOpen(f *testing.F) {
	r := alive(peerOf(1))
	plain, err := seal(unsigned, &r)
	if err != nil {
		f.Fatal(err)
	}
	most := full()
	most.Issued, most.Expires = r.Issued, r.Expires
	rich, err := seal(unsigned, &most)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []*sealed{plain, rich} {
		f.Add(s.part.Beat, s.part.Static)
	}
	f.Add([]byte("\x02xxxx"), []byte("{}"))
	f.Fuzz(func(t *testing.T, beat, still []byte) {
		// The static part is what the heartbeat names, and anybody's signature is good, so that
		// neither stops anything.
		name := staticDomain.Of(still)
		for i := 0; i+len(name) < len(beat); i++ {
			if bytes.Equal(beat[i:i+len(name)], plain.hash[:]) || bytes.Equal(beat[i:i+len(name)], rich.hash[:]) {
				copy(beat[i:], name[:])
			}
		}
		p := wire.Part{Beat: beat, Static: still}
		s, _, err := open(p, epoch, anybody, nil)
		if err != nil {
			kind(err)
			return
		}
		r := s.record
		if err := r.Validate(); err != nil {
			t.Errorf("an invalid record was opened: %v", err)
		}
		if len(r.Addrs) > swarm.MaxAddrs || p2p.CheckID(r.Peer) != nil {
			t.Errorf("%d addresses of %q", len(r.Addrs), r.Peer)
		}
		store := newRecords("self")
		if _, err := store.put(s, source{}, epoch); err != nil {
			t.Error(err)
		}
		if store.total.bytes < p.Size() {
			t.Errorf("a record of %d bytes counts for %d", p.Size(), store.total.bytes)
		}
		audit(t, store)
		for _, e := range store.peers {
			if life := e.until.Sub(epoch); life > swarm.MaxLifetime {
				t.Errorf("lives %v", life)
			}
		}
		store.views(epoch)
	})
}
