package chain

import (
	"time"

	"whorl/swarm"
)

// EventKind says what happened.
type EventKind uint8

// The events. Stage names the stage that an event is about, Epoch the route it belongs to.
const (
	_          EventKind = iota
	Advance              // a call begins: rows up to To are to be computed, and outputs from From on are wanted
	Cut                  // rows from To on do not count any more
	Planned              // Hops are the whole chain, in order
	Unplanned            // there is no chain: Err
	Dialled              // the stream to Stage is open
	Answered             // Stage's answer to Open, Route or Ask: it has computed rows up to To
	Computed             // Stage reports unasked that it has computed rows up to To
	Results              // Stage sent rows From to To of its output to the client as results
	Journalled           // the same for the journal
	Failed               // Stage reports a failure
	Lost                 // the client lost Stage: What was seen, and Err
	Compared             // whether a better server than Stage's exists: OK
	Tick                 // time has passed
	Leaving              // Stage says that it will be gone at the time By
	Better               // Hops are a better way through blocks From to To than the chain's stages
	Relieved             // Hops can take the place of the stages that Relieve named; none if nobody can
	Gone                 // the caller has left, for the reason Err: it proves nothing about any server
)

// Event is something that happened to a session.
type Event struct {
	Kind     EventKind
	OK       bool
	What     swarm.Observation
	Verdict  swarm.Verdict // of Failed
	Stage    int
	Epoch    uint32
	From, To int
	Chunk    int          // of Advance: the most rows in a frame
	Code     swarm.Code   // of Failed
	Peer     swarm.PeerID // of Failed: whom it names, "" for nobody
	Err      error
	Hops     []Hop
	By       time.Time
}

// Hop is a server for a run of blocks.
type Hop struct {
	swarm.Hop
	Stage int // 0 for a server that has no stage in the session yet
	// What the server announces a row takes through the run: of a decode, of a prompt.
	Decode, Prefill time.Duration
}

// ActionKind says what is to be done.
type ActionKind uint8

// The actions. Take, Keep and Finish are done at once; all others in order, so that rows which
// are to be sent are there until then.
const (
	_       ActionKind = iota
	Take               // copy rows From to To to the outputs
	Keep               // put rows From to To into the journal of the border in front of block Block
	Forget             // drop what the journal of the border in front of block Block holds from row From on
	Plan               // find servers for the blocks that Machine.Alive lacks, or if Whole for all; answer Planned or Unplanned
	Compare            // look for a server that is faster than Took a row, for the blocks of Stage; answer Compared
	Relieve            // look for servers for blocks From to To, which those of the chain leave, beginning with Stage; answer Relieved
	Dial               // open a stream to Hop, which becomes Stage; answer Dialled or Lost
	Open               // open the session on Stage at Place; it answers
	Route              // tell Stage its new Place; it answers
	Commit             // let Stage run
	Ask                // ask Stage for its position; it answers
	Send               // send Stage rows From to To of its input
	Drop               // end the stream to Stage; nothing is heard of it any more
	Observe            // What was seen of the server Peer, and Err
	Detour             // the server Peer cannot reach Next: rows between the two go through the client
	Report             // tell the log that attempt From of a re-route failed for Err
	Finish             // the call is over: Err, nil if all is computed
)

// Action is something to be done.
type Action struct {
	Kind     ActionKind
	What     swarm.Observation
	Whole    bool
	Aside    bool // of Dial: no call waits for it
	Stage    int
	From, To int
	Want     int // of Send: the first row whose output the client lacks
	Block    int
	Took     time.Duration
	Hop      Hop
	Peer     swarm.PeerID
	Next     swarm.PeerID // of Detour
	Place    Place
	Err      error
}

// Place is a stage's place in the chain for one epoch; wire.Route says what the fields mean.
type Place struct {
	Epoch                           uint32
	Truncate, Resume, Skip, Journal int
	Prev, Next                      swarm.PeerID
	Around                          bool // Next cannot be reached: outputs go to the client, who passes them on
}
