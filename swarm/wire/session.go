package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/proof"
)

// LeaseTime is how long a stage keeps the cache of an Open without its Commit, beside the wait
// that the Open allows: the other stages are asked meanwhile, and a client that hangs must not
// hold memory.
const LeaseTime = 10 * time.Second

// Open asks a stage to take part in a session.
type Open struct {
	Version  int            `json:"version"`
	Features swarm.Features `json:"features,omitempty"` // of the client
	Session  SessionID      `json:"session"`
	UID      swarm.UID      `json:"uid"`
	// Mode is what the client takes for SessionMode().Hash(): a stage that understands the
	// frame in another way, such as one that does not know a member, refuses the session.
	Mode      content.Hash `json:"mode"`
	Span      swarm.Span   `json:"span"`       // part of the span the server holds
	MaxLength int          `json:"max_length"` // positions to reserve, for each sequence
	// Sequences is the number of sequences to reserve for; 0 counts as 1.
	Sequences   int    `json:"sequences,omitempty"`
	Activations string `json:"activations"`
	// Residual is how rows are rounded between blocks; "" for not at all.
	Residual   string `json:"residual,omitempty"`
	WaitMillis int    `json:"wait_ms"` // how long to wait in the queue for cache
	Route      Route  `json:"route"`
	// Adapter, if given, changes what the span's blocks compute for the session.
	Adapter *swarm.Adapter `json:"adapter,omitempty"`
	// Prompts, if given, are added to the first rows in front of each block: a stage is sent those of
	// its blocks behind its Accept, before the Commit.
	Prompts *Prompts `json:"prompts,omitempty"`
	// Receipts asks for receipts of the rows, which carry this: 32 bytes that the client chose.
	// Zero asks for none, and costs the stage nothing.
	Receipts content.Hash `json:"receipts,omitzero"`
	// Background says that nobody waits for the results, such as those of an audit: the stage
	// computes other sessions first.
	Background bool `json:"background,omitempty"`
}

// SessionMode is all of the frame that alters what stages compute.
func (o *Open) SessionMode() proof.Mode {
	m := proof.Mode{Activations: o.Activations, Residual: o.Residual, MaxLength: o.MaxLength}
	if o.Adapter != nil {
		m.Adapter = o.Adapter.Digest
	}
	if o.Prompts != nil {
		m.Prompts = o.Prompts.Hash()
	}
	return m
}

// Route places a stage in the chain for one epoch.
type Route struct {
	Epoch uint32 `json:"epoch"`
	// Truncate cuts the stage's history to this many positions.
	Truncate int `json:"truncate"`
	// Prev may send rows beside the client; "" means the client alone.
	Prev swarm.PeerID `json:"prev,omitempty"`
	// Next receives the outputs; "" means they go to the client: the last stage.
	Next swarm.PeerID `json:"next,omitempty"`
	// Around says that Next cannot be reached from here: the outputs from Skip on go to the
	// client, as a journal that leaves nothing out, and the client passes them on.
	Around bool `json:"around,omitempty"`
	// NextRecord is Next's signed record, so that the stage dials nobody unknown.
	NextRecord []byte `json:"next_record,omitempty"`
	// Packed says that Next reads packed rows.
	Packed bool `json:"packed,omitempty"`
	// Resume is the first position that Prev pushes; 0 if it is not said.
	Resume int `json:"resume,omitempty"`
	// Skip is the first position that Next lacks.
	Skip int `json:"skip"`
	// Journal asks for the stage's outputs from this position on, beside the push; -1
	// for none.
	Journal int `json:"journal"`
}

// Status is a stage's answer to Open (Accept), Route and Ask.
type Status struct {
	Epoch    uint32 `json:"epoch"`
	Position int    `json:"position"` // rows computed
	Step     uint64 `json:"step"`     // of the last rows computed
	// Mode is the session's, as the stage understands it.
	Mode content.Hash `json:"mode,omitzero"`
	// Receipts says that the stage makes them, as its Open asked: it may be asked for one.
	Receipts bool `json:"receipts,omitempty"`
}

// Hello opens a push stream.
type Hello struct {
	Version  int            `json:"version"`
	Features swarm.Features `json:"features,omitempty"` // of the stage that pushes
	Session  SessionID      `json:"session"`
	Epoch    uint32         `json:"epoch"`
}

// Leaving says that a stage will end its sessions, and when: until then it serves, so that its
// client can fill another one. It proves no fault.
type Leaving struct {
	Millis int64 `json:"ms"` // from now
}

// maxLeaving bounds what a stage may say of the time that is left.
const maxLeaving = time.Hour

// Within is the time that is left.
func (l Leaving) Within() time.Duration {
	return time.Duration(min(max(0, l.Millis), maxLeaving.Milliseconds())) * time.Millisecond
}

// Fail reports an error. The stage stays as it was unless the verdict says otherwise.
type Fail struct {
	Epoch   uint32        `json:"epoch"`
	Code    swarm.Code    `json:"code"`
	Verdict swarm.Verdict `json:"verdict"`
	Message string        `json:"message"`
	Peer    swarm.PeerID  `json:"peer,omitempty"` // to blame, if not the sender
}

// maxText is the most bytes of an error that travel: however JSON writes them they fit a frame.
const maxText = 2 << 10

// NewFail states an error for the wire.
func NewFail(epoch uint32, err error) Fail {
	e := swarm.AsError(err)
	text := e.Error()
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return Fail{Epoch: epoch, Code: e.Code, Verdict: e.Verdict, Message: text, Peer: e.Peer}
}

// Err is the error as the receiver sees it; from is who sent it.
func (f Fail) Err(from swarm.PeerID) *swarm.Error {
	e := &swarm.Error{Code: f.Code, Verdict: f.Verdict, Message: f.Message, Peer: f.Peer}
	if e.Peer == "" {
		e.Peer = from
	}
	return e
}

// Decode reads a JSON payload into v; unknown fields are ignored so that newer peers can
// add some.
func Decode(t Type, p []byte, v any) error {
	if err := json.Unmarshal(p, v); err != nil {
		return fmt.Errorf("%w: type %d: %v", ErrFrame, t, err)
	}
	return nil
}

// DecodeFirst reads the first frame that from sent on a stream to self: Open, Hello or Pull.
// Its version is looked at before anything else, since the rest of a frame of another
// version may mean anything.
func DecodeFirst(t Type, p []byte, self, from swarm.PeerID, v any) error {
	var first struct {
		Version int `json:"version"`
	}
	if err := Decode(t, p, &first); err != nil {
		return err
	}
	if first.Version != Version {
		return swarm.Errorf(swarm.CodeVersion, swarm.Elsewhere, "node %s speaks version %d of the protocols, %s speaks %d: update the older of the two",
			self.Short(), Version, from.Short(), first.Version)
	}
	return Decode(t, p, v)
}

// AppendJSON appends a frame whose payload is v as JSON. v must marshal.
func AppendJSON(dst []byte, t Type, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own plain structs
	}
	return AppendFrame(dst, t, b)
}
