// Package wire is the bytes between nodes: framing, the session protocol's messages and
// their limits, and an in-memory stream for nodes of one process. Standard library and
// swarm only: it opens no connection and encodes no tensor (codec does).
//
// # Session protocol
//
// The client opens one control stream ([ProtoSession]) to each stage of its chain; a stage
// opens one push stream ([ProtoPush]) to its successor. All carry frames: a 4-byte
// little-endian length, a type byte, the payload.
//
//	client                      stage i                     stage i+1
//	  | -- Open ------------------> |                            |
//	  | <------------ Accept/Fail - |   (cache leased for LeaseTime and the wait)
//	  | -- Chunk ... -------------> |   (prompts of its blocks, if the Open names some)
//	  | -- Commit ----------------> |   (the lease holds until the end)
//	  | -- Rows (stage 0, replay) > | -- Hello, Rows ----------> |
//	  | <-------------- Done, Journal, Rows (last stage), Fail - |
//	  | -- Route (new epoch) -----> |
//	  | <---------------- Status -- |
//	  | -- Ask -------------------> |
//	  | <---------------- Status -- |
//	  | -- Receipt (asks) --------> |   (only after an Accept that says so)
//	  | <--------------- Receipt -- |   (also unasked: see [Receipt])
//	  | <--------------- Leaving -- |   (only to a client with [FeatureHandover])
//	  | -- close of the stream ---> |   (everything is freed)
//
// Rows carry hidden states of consecutive positions (for several sequences see [Beams]):
// input of the stage when they go down, output of the last stage when they come back. A
// stage takes Rows only with its epoch and only if Start equals its length; lower is a
// duplicate (dropped, with a Done of the present position), higher is a gap (Fail), an
// older epoch is dropped silently. A push stream never goes back: its rows begin at Resume of
// Open and Route, and each frame begins where the one before ended.
// Want is the first position whose final output the client asks for; it travels along.
// Skip of Open and Route is the first position the stage's successor lacks: outputs
// before it are computed but not pushed. A stage that cannot cut its history at Truncate,
// since its sequences have parted before and moved on, cuts more and says so in its Status.
package wire
