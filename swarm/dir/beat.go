package dir

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/encoding/protowire"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// beatDomain keeps the signatures of heartbeats apart from all others.
const beatDomain = "heartbeat/1"

// The members of a heartbeat, as fields of protocol buffers: those of its own, and of an
// Intent and a Load inside it. A reader passes by what it does not know; a number is never
// given to another member.
const (
	beatProtocol   = iota + 1 // varint
	beatPeer                  // bytes of the id
	beatStatic                // hash of the static part
	beatSeq                   // varint
	beatIssued                // varint, unix milliseconds
	beatLife                  // varint, milliseconds
	beatState                 // varint
	beatCacheLeft             // varint, tokens
	beatThroughput            // fixed64, as are the rates
	beatInference
	beatForward
	beatNetwork
	beatLoad    // message
	beatNext    // message
	beatLoading // message, in place of beatLoad

	loadBusy     = 1 // varint, thousandths
	loadSessions = 2
	loadWaiting  = 3

	nextStart = 1
	nextEnd   = 2
	nextOpen  = 3

	loadingHere  = 1 // varint, steps of loadingStep
	loadingTotal = 2
	loadingRate  = 3 // steps a second
)

const (
	// perMille is the step of what a heartbeat says of a share of time.
	perMille = 1000
	// loadingStep is the step of what it says of bytes that are fetched.
	loadingStep = 64 << 10
)

// The reasons why a record is refused; wrapped with the particulars. Others are
// swarm.ErrBadRecord.
var (
	ErrSignature = errors.New("record is not signed by its peer")
	ErrClock     = errors.New("clocks disagree")
	ErrExpired   = errors.New("record has expired")
	ErrProtocol  = errors.New("peer speaks another protocol version")
	ErrFull      = errors.New("the directory is full")
	ErrTeller    = errors.New("a node brings its own record and no other")
	ErrStatic    = errors.New("the static part of a record is missing")
)

// errKnown ends the opening of a record that is not newer than what is known.
var errKnown = errors.New("record is known")

// MaxSkew is how far a peer's clock may be ahead or behind: well above what NTP leaves,
// well below the life of a record. Within it nothing changes.
const MaxSkew = 30 * time.Second

// WarnSkew is how far clocks may differ without a word: what NTP leaves is far below it.
const WarnSkew = 10 * time.Second

// signer and verifier are a node's key and the rule by which a peer id proves a signature.
type (
	signer   func(domain string, payload []byte) ([]byte, error)
	verifier func(p swarm.PeerID, domain string, payload, sig []byte) error
)

// sealed is a record with the bytes that its peer signed.
type sealed struct {
	record *swarm.Record
	part   wire.Part    // both parts
	hash   content.Hash // of the static part
}

// tag is what offers call it.
func (s *sealed) tag() wire.Tag {
	return wire.Tag{Beat: tagOf(content.Sum(s.part.Beat)), Static: tagOf(s.hash)}
}

func tagOf(h content.Hash) (t uint64) {
	for i := range 8 {
		t |= uint64(h[i]) << (8 * i)
	}
	return t
}

// seal signs a record. What it returns is the record as others read it.
func seal(sign signer, r *swarm.Record) (*sealed, error) {
	still := staticOf(r)
	raw, hash, err := still.encode()
	if err != nil {
		return nil, err
	}
	payload, err := beatOf(r, hash)
	if err != nil {
		return nil, err
	}
	sig, err := sign(beatDomain, payload)
	if err != nil {
		return nil, err
	}
	beat := append(append([]byte{byte(len(payload))}, payload...), sig...)
	if len(beat) > wire.MaxBeat {
		return nil, fmt.Errorf("%w: a heartbeat of %d bytes, at most %d", swarm.ErrBadRecord, len(beat), wire.MaxBeat)
	}
	told := *r
	if told.Load != nil {
		load := *told.Load
		load.Busy = math.Round(load.Busy*perMille) / perMille
		told.Load = &load
	}
	if told.Loading != nil {
		told.Load, told.Loading = nil, loadingOf(stepsOf(told.Loading))
	}
	return &sealed{&told, wire.Part{Beat: beat, Static: raw}, hash}, nil
}

// stepsOf is what a heartbeat says of a server's progress: what has begun counts as a step.
func stepsOf(l *swarm.Loading) (here, total, rate uint64) {
	steps := func(v float64) uint64 { return uint64(math.Ceil(max(0, v) / loadingStep)) }
	total = steps(float64(l.Total))
	return min(uint64(l.Bytes/loadingStep), total), total, steps(l.Rate)
}

// loadingOf is what a reader takes that for.
func loadingOf(here, total, rate uint64) *swarm.Loading {
	bytes := func(steps uint64) int64 { return int64(min(steps, swarm.MaxLoading/loadingStep)) * loadingStep }
	return swarm.NewLoading(bytes(here), bytes(total), float64(bytes(rate)))
}

// beatOf is what a heartbeat says.
func beatOf(r *swarm.Record, hash content.Hash) ([]byte, error) {
	id, err := peer.Decode(string(r.Peer))
	if err != nil {
		return nil, fmt.Errorf("%w: peer id %.100q: %v", swarm.ErrBadRecord, string(r.Peer), err)
	}
	b := make([]byte, 0, wire.MaxBeat)
	number := func(tag protowire.Number, v uint64) {
		if v != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, tag, protowire.VarintType), v)
		}
	}
	text := func(tag protowire.Number, v []byte) {
		b = protowire.AppendBytes(protowire.AppendTag(b, tag, protowire.BytesType), v)
	}
	rate := func(tag protowire.Number, v *float64) {
		if v != nil {
			b = protowire.AppendFixed64(protowire.AppendTag(b, tag, protowire.Fixed64Type), math.Float64bits(*v))
		}
	}
	within := func(tag protowire.Number, write func()) {
		outer := b
		b = nil
		write()
		inner := b
		b = outer
		text(tag, inner)
	}
	number(beatProtocol, uint64(r.Protocol))
	text(beatPeer, []byte(id))
	text(beatStatic, hash[:])
	number(beatSeq, r.Seq)
	number(beatIssued, uint64(r.Issued))
	number(beatLife, uint64(r.Expires-r.Issued))
	number(beatState, uint64(r.State))
	number(beatCacheLeft, uint64(r.CacheLeft))
	if r.Throughput != 0 {
		rate(beatThroughput, &r.Throughput)
	}
	rate(beatInference, r.Rates.InferenceRPS)
	rate(beatForward, r.Rates.ForwardRPS)
	rate(beatNetwork, r.Rates.NetworkRPS)
	if l := r.Loading; l != nil {
		within(beatLoading, func() {
			here, total, rate := stepsOf(l)
			number(loadingHere, here)
			number(loadingTotal, total)
			number(loadingRate, rate)
		})
	} else if l := r.Load; l != nil {
		within(beatLoad, func() {
			number(loadBusy, uint64(math.Round(l.Busy*perMille)))
			number(loadSessions, uint64(l.Sessions))
			number(loadWaiting, uint64(l.Waiting))
		})
	}
	if n := r.Next; n != nil {
		within(beatNext, func() {
			number(nextStart, uint64(n.Span.Start))
			number(nextEnd, uint64(n.Span.End))
			if n.Open {
				number(nextOpen, 1)
			}
		})
	}
	return b, nil
}

// field is one member of a message: number or raw, as its kind wants.
type field struct {
	tag    protowire.Number
	kind   protowire.Type
	number uint64
	raw    []byte
}

// fields reads a message of numbers and bytes.
func fields(b []byte, each func(field) error) error {
	for len(b) > 0 {
		tag, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		f := field{tag: tag, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.number, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.raw, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(tag, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := each(f); err != nil {
			return err
		}
	}
	return nil
}

// kinds of the members of a heartbeat; of those within it all are varints.
var kinds = map[protowire.Number]protowire.Type{
	beatProtocol: protowire.VarintType, beatPeer: protowire.BytesType, beatStatic: protowire.BytesType, beatSeq: protowire.VarintType,
	beatIssued: protowire.VarintType, beatLife: protowire.VarintType, beatState: protowire.VarintType, beatCacheLeft: protowire.VarintType,
	beatThroughput: protowire.Fixed64Type, beatInference: protowire.Fixed64Type, beatForward: protowire.Fixed64Type,
	beatNetwork: protowire.Fixed64Type, beatLoad: protowire.BytesType, beatNext: protowire.BytesType,
	beatLoading: protowire.BytesType,
}

// parseBeat reads a heartbeat, proven or not: a record without its static part, the name of
// that, and what was signed how.
func parseBeat(b []byte) (r *swarm.Record, hash content.Hash, payload, sig []byte, err error) {
	bad := func(format string, a ...any) (*swarm.Record, content.Hash, []byte, []byte, error) {
		return nil, hash, nil, nil, fmt.Errorf("%w: heartbeat: %s", swarm.ErrBadRecord, fmt.Sprintf(format, a...))
	}
	if len(b) > wire.MaxBeat || len(b) == 0 || len(b) <= int(b[0]) {
		return bad("%d bytes, at most %d", len(b), wire.MaxBeat)
	}
	payload, sig = b[1:1+int(b[0])], b[1+int(b[0]):]
	r = new(swarm.Record)
	var life uint64
	named := false
	err = fields(payload, func(f field) error {
		if want, ok := kinds[f.tag]; ok && f.kind != want {
			return fmt.Errorf("member %d is of kind %d instead of %d", f.tag, f.kind, want)
		}
		rate := func() *float64 { v := math.Float64frombits(f.number); return &v }
		switch f.tag {
		case beatProtocol:
			r.Protocol = int(min(f.number, math.MaxInt32))
		case beatPeer:
			id, err := peer.IDFromBytes(f.raw)
			if err != nil {
				return err
			}
			r.Peer = swarm.PeerID(id.String())
		case beatStatic:
			named = len(f.raw) == len(hash)
			copy(hash[:], f.raw)
		case beatSeq:
			r.Seq = f.number
		case beatIssued:
			r.Issued = int64(min(f.number, math.MaxInt64/2))
		case beatLife:
			life = min(f.number, math.MaxInt64/4)
		case beatState:
			if f.number > uint64(swarm.Online) {
				return fmt.Errorf("state %d", f.number)
			}
			r.State = swarm.State(f.number)
		case beatCacheLeft:
			r.CacheLeft = int64(min(f.number, math.MaxInt64))
		case beatThroughput:
			r.Throughput = *rate()
		case beatInference:
			r.Rates.InferenceRPS = rate()
		case beatForward:
			r.Rates.ForwardRPS = rate()
		case beatNetwork:
			r.Rates.NetworkRPS = rate()
		case beatLoad:
			r.Load = new(swarm.Load)
			return fields(f.raw, func(f field) error {
				n := int(min(f.number, math.MaxInt32))
				switch f.tag {
				case loadBusy:
					r.Load.Busy = float64(n) / perMille
				case loadSessions:
					r.Load.Sessions = n
				case loadWaiting:
					r.Load.Waiting = n
				}
				return nil
			})
		case beatLoading:
			var here, total, rate uint64
			err := fields(f.raw, func(f field) error {
				switch f.tag {
				case loadingHere:
					here = f.number
				case loadingTotal:
					total = f.number
				case loadingRate:
					rate = f.number
				}
				return nil
			})
			r.Loading = loadingOf(here, total, rate)
			return err
		case beatNext:
			r.Next = new(swarm.Intent)
			return fields(f.raw, func(f field) error {
				n := int(min(f.number, math.MaxInt32))
				switch f.tag {
				case nextStart:
					r.Next.Span.Start = n
				case nextEnd:
					r.Next.Span.End = n
				case nextOpen:
					r.Next.Open = n != 0
				}
				return nil
			})
		}
		return nil
	})
	switch {
	case err != nil:
		return bad("%v", err)
	case r.Peer == "" || !named:
		return bad("no peer, or no static part")
	}
	r.Expires = r.Issued + int64(life)
	return r, hash, payload, sig, nil
}

// lookup tells what is known of the peer of a heartbeat: an error ends the opening before it
// costs anything; like is a record with the same static part, if there is one, and raw are that part's bytes.
type lookup func(who swarm.PeerID, seq uint64, hash content.Hash) (like *swarm.Record, raw []byte, err error)

// open checks a record against the clock and its signature. who is the peer that it claims to
// be of, proven or not, "" if that cannot be told. What it returns shares no bytes with p.
func open(p wire.Part, now time.Time, verify verifier, known lookup) (s *sealed, who swarm.PeerID, err error) {
	r, hash, payload, sig, err := parseBeat(p.Beat)
	if err != nil {
		return nil, "", err
	}
	who = r.Peer
	var like *swarm.Record
	var raw []byte
	if known != nil {
		if like, raw, err = known(who, r.Seq, hash); err != nil {
			return nil, who, err
		}
	}
	if r.Protocol != wire.Version {
		return nil, who, fmt.Errorf("%w: %s speaks %d, this node %d: update the older of the two", ErrProtocol, who.Short(), r.Protocol, wire.Version)
	}
	if ahead := time.UnixMilli(r.Issued).Sub(now); ahead > MaxSkew {
		return nil, who, fmt.Errorf("%w: that of %s is %v ahead of ours, at most %v is allowed: set the clocks", ErrClock, who.Short(), ahead.Round(time.Second), MaxSkew)
	}
	if over := now.Sub(time.UnixMilli(r.Expires)); over >= MaxSkew {
		return nil, who, fmt.Errorf("%w: that of %s ended %v ago", ErrExpired, who.Short(), over.Round(time.Second))
	}
	switch {
	case like != nil:
		still := staticOf(like)
		still.into(r)
	case len(p.Static) == 0:
		return nil, who, fmt.Errorf("%w: that of %s", ErrStatic, who.Short())
	case staticDomain.Of(p.Static) != hash:
		return nil, who, fmt.Errorf("%w of %s: the static part is not the one that its heartbeat names", swarm.ErrBadRecord, who.Short())
	default:
		still, err := decodeStatic(p.Static)
		if err != nil {
			return nil, who, err
		}
		still.into(r)
		raw = bytes.Clone(p.Static)
	}
	if err := r.Validate(); err != nil {
		return nil, who, err
	}
	if like == nil {
		for q := range r.NextRTT {
			if err := p2p.CheckID(q); err != nil {
				return nil, who, fmt.Errorf("%w of %s: round trip: %v", swarm.ErrBadRecord, who.Short(), err)
			}
		}
	}
	if err := verify(r.Peer, beatDomain, payload, sig); err != nil {
		return nil, who, fmt.Errorf("%w: %v", ErrSignature, err)
	}
	return &sealed{r, wire.Part{Beat: bytes.Clone(p.Beat), Static: raw}, hash}, who, nil
}

// kind names a refusal for metrics.
func kind(err error) string {
	for _, k := range []struct {
		err  error
		name string
	}{{ErrSignature, "signature"}, {ErrClock, "clock"}, {ErrExpired, "expired"}, {ErrProtocol, "protocol"}, {ErrFull, "full"}, {ErrTeller, "teller"}, {ErrStatic, "static"}} {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "invalid"
}
