package client

import (
	"time"

	"whorl/client/grammar"
	"whorl/client/sample"
	"whorl/swarm"
	"whorl/tensor"
)

// SessionOptions opens a session.
type SessionOptions struct {
	// MaxLength is the budget in positions: prompts and answers of the whole session.
	MaxLength int
	// Prompt is how many of them the first turn is about to bring, for the choice of servers; 0 if
	// that is not known yet.
	Prompt int
	// Beams is the most beams of a search in the session; servers reserve cache for so many
	// sequences. 0 counts as 1.
	Beams       int
	Activations tensor.Activations
	// PrefillChunk is the most rows sent in one frame; 0 chooses by measured times.
	PrefillChunk int
	// Wait is how long servers may keep the open waiting for cache; 0 for the default.
	Wait time.Duration
	// Adapter names a LoRA adapter, as NAME or NAME@DIGEST; every stage of the session holds
	// it. "" for none.
	Adapter string
	// Prompts are trained rows that the session begins with; nil for none. MaxLength does not
	// count them.
	Prompts *Prompts
	// Receipts asks every stage for receipts of what it computes (Session.Receipts). Stages
	// that make none take part all the same.
	Receipts bool
	// Audit keeps what Session.Audit needs beside the journal.
	Audit bool
	// beside is how many sessions share the memory of one for their journals; 0 counts as 1.
	beside int
	// Verify has every step computed by so many chains that share no server, at most
	// MaxVerify, and compared bit by bit before anything is chosen from it. 0 and 1: one chain
	// computes and nothing is compared.
	Verify int
}

func (o *SessionOptions) sequences() int { return max(1, o.Beams) }

// Request is one turn of generation in a session.
type Request struct {
	// Prompt holds the new ids of this turn; empty means "continue", which needs a
	// session that has generated or been given something before.
	Prompt       []int32
	MaxNewTokens int
	Sampling     sample.Params
	// Beams asks for a beam search if it has more than one. Nothing is shown before its
	// end; then one delta holds the best answer.
	Beams sample.BeamParams
	// Stop ends the turn when the text generated in it contains one of these. Deltas
	// never show any part of a stop text: what could begin one is held back.
	Stop []string
	// IncludeStop adds the stop text to the answer (the legacy chat protocol).
	IncludeStop bool
	IgnoreEOS   bool
	// Special shows control tokens (such as the end token) as text.
	Special bool
	// Show are control tokens that are shown as text although Special is not set.
	Show []int32
	// Branches, if there are any, are several answers that go on from the session's text and
	// Prompt, which is computed once: at most as many as the session has sequences. Each has
	// MaxNewTokens and is what it would be alone. The session ends up with Prompt, and without any
	// answer; see Session.Keep.
	Branches []Branch
	// Guidance moves the answer away from what would follow another context; nil for none.
	Guidance *Guidance
	// Grammar, of Engine.Grammar, is what the answer must be; nil for anything. It ends the
	// answer where nothing may follow. What must come next is taken without asking the chain,
	// unless log-probabilities or the hash are asked for.
	Grammar *grammar.Grammar
	// Form, if not nil, makes what says which ids may come, in place of Grammar; each answer has its
	// own.
	Form func() (Form, error)
	// TopLogprobs asks for log-probabilities with that many alternatives; -1 for none.
	TopLogprobs int
	// Hash asks for Result.LogitsHash.
	Hash bool
	// Echo asks for the prompt's text before the answer, with log-probabilities if those of
	// the answer are asked for: then the session must be empty.
	Echo bool
}

// Validate refuses what no session can answer, given the size of the vocabulary; the error is a
// *sample.FieldError.
func (r *Request) Validate(vocab int) error {
	if err := r.Sampling.Validate(); err != nil {
		return err
	}
	if err := r.Sampling.Fits(vocab); err != nil {
		return err
	}
	if len(r.Branches) > 0 {
		if err := r.validateBranches(); err != nil {
			return err
		}
	}
	if r.Guidance != nil {
		if err := r.Guidance.validate(r, vocab); err != nil {
			return err
		}
	}
	if r.Grammar != nil || r.Form != nil {
		switch {
		case r.IgnoreEOS && r.Form == nil:
			return &sample.FieldError{Field: "ignore_eos", Value: true, Want: "false where the answer's form is given"}
		case r.Beams.Beams > 1:
			return &sample.FieldError{Field: "num_beams", Value: r.Beams.Beams, Want: "1 where the answer's form is given: a beam search cannot keep it"}
		}
	}
	if r.Beams.Beams <= 1 && r.Beams.Groups <= 1 {
		if r.Beams.Return > 1 {
			return &sample.FieldError{Field: "num_return_sequences", Value: r.Beams.Return, Want: "at most num_beams, which is 1"}
		}
		return nil
	}
	if err := r.Beams.Validate(); err != nil {
		return err
	}
	if err := r.Beams.Suits(&r.Sampling); err != nil {
		return err
	}
	switch {
	case r.Sampling.MaxTime > 0:
		return &sample.FieldError{Field: "max_time", Value: r.Sampling.MaxTime, Want: "none with num_beams: use timeout"}
	case r.TopLogprobs >= 0:
		return &sample.FieldError{Field: "logprobs", Value: r.TopLogprobs, Want: "none: a beam search does not give them"}
	}
	return nil
}

// Delta is what one or more tokens added. Text is valid UTF-8 and may be empty only with
// IDs that show nothing.
type Delta struct {
	Text     string
	IDs      []int32
	Logprobs []Logprob // one per id if asked for
	// Echo says that this is the prompt, which comes before the answer: Logprobs are of its
	// ids, which IDs does not hold.
	Echo bool
	// Branch is the answer that this is of, where there are several.
	Branch int
}

// Echo is a prompt as the model reads it.
type Echo struct {
	Text string // without control tokens
	// Logprobs are those of the prompt's ids, each after the ones before it. The first id is
	// after nothing: its entry has no alternatives, and Logprob means nothing.
	Logprobs []Logprob
}

// Logprob is how likely an id of an answer was.
type Logprob struct {
	ID      int32
	Logprob float64              // see sample.Logprobs
	Top     []sample.Alternative // in falling order
	// Offset is where the id begins in the text of the turn, in characters: a piece of a
	// character has that of the character, what is not shown the end of the text so far.
	Offset int
}

// Finish says why a turn ended.
type Finish string

// The reasons.
const (
	FinishStop      Finish = "stop"   // a stop text
	FinishEOS       Finish = "eos"    // an end-of-generation token
	FinishLength    Finish = "length" // MaxNewTokens, the budget, or MaxTime
	FinishCancelled Finish = "cancelled"
)

// Answer is one that a beam search found, or that of a branch.
type Answer struct {
	IDs       []int32 // the end token included
	Text      string
	Score     float64 // of a search: sum of log-probabilities over the penalty of its length
	Finish    Finish
	StopMatch string
	Logprobs  []Logprob // of a branch, if asked for
}

// Timings of a turn.
type Timings struct {
	Prefill time.Duration // until the first token was sampled
	Decode  time.Duration // from then to the last
	Pause   time.Duration // the longest between two tokens; not of beams and branches
}

// Result sums up a turn. IDs are all new ids, the end token included, those of branches one after
// the other; Text is what the deltas joined give, of the first branch.
type Result struct {
	IDs          []int32
	Text         string
	Logprobs     []Logprob
	Echo         *Echo    // if asked for
	Answers      []Answer // of a beam search, best first: the first one is IDs and Text; or of branches
	Finish       Finish
	StopMatch    string // the stop text that matched
	PromptTokens int
	Position     int // of the session after the turn
	Route        []swarm.Hop
	Timings      Timings
	Reroutes     int // fail-overs during the turn
	// Verified is how many chains without a common server gave the same bits for every row
	// that a token of this turn was chosen from; 0 if nothing was compared. Route then has the
	// hops of one chain after the other.
	Verified int
	// LogitsHash sums up the bits of all logits that were sampled from: equal hashes mean
	// that route, batching and machine made no difference.
	LogitsHash string
}

// Model is what an Engine serves.
type Model struct {
	Name      string
	UID       swarm.UID
	Manifest  swarm.Manifest
	Vocab     int
	MaxLength int // longest session: the model's context limit
	Created   time.Time
}
