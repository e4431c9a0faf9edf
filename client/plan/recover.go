package plan

// Stage is what the client knows of one stage of the chain when a route changes.
type Stage struct {
	// Position is the number of rows the stage has computed, as far as the client
	// knows; 0 for a stage that was just opened. A bound from below is enough: what it
	// misses is computed again with the same bits.
	Position int
	// Known holds the positions whose input rows the client can send: its journal of
	// the border before the stage. For stage 0 that is everything, since the client has
	// the token ids.
	Known Ranges
}

// Move is what one stage does to get ready.
type Move struct {
	// Truncate is how much of its history the stage keeps.
	Truncate int
	// Feed is what the client sends to the stage before the stage in front of it
	// resumes: from Truncate up to the first row the client does not know.
	Feed Range
	// Skip is the first output row its successor lacks; for the last stage it is the
	// first row whose output the client still wants.
	Skip int
}

// Recover plans how a chain reaches target rows again after some of its stages were
// replaced. want is the first position whose final output the client still lacks
// (target if none).
//
// Seen from the end: a stage needs the rows from its position on. The client feeds what
// it knows of them; the first row it does not know must be made by the stage before, which
// therefore rolls back to it, and needs its own inputs from there on, and so forth. Stage
// 0 can always be fed. Where the stage before has to make most of these rows again anyway,
// since it is new as well, nothing is fed: its outputs come by themselves, and both compute
// at the same time. Feeds must be carried out from the last stage to the first, each
// complete before the next begins, so that no stage sees a gap. The Feed of stage 0 is the
// ordinary sending of the session.
func Recover(stages []Stage, target, want int) []Move {
	moves := make([]Move, len(stages))
	need := target // first row of its output that somebody needs from the stage at hand
	for i := len(stages) - 1; i >= 0; i-- {
		m := &moves[i]
		if i == len(stages)-1 {
			need = want
		}
		m.Skip = need
		m.Truncate = min(stages[i].Position, target)
		if need < target {
			m.Truncate = min(m.Truncate, need)
		}
		known := target
		if i > 0 {
			known = min(stages[i].Known.KnownFrom(m.Truncate), target)
			if again := known - stages[i-1].Position; 2*(known-m.Truncate) > again && again >= known-m.Truncate {
				known = m.Truncate
			}
		}
		m.Feed = Range{m.Truncate, known}
		need = known
	}
	return moves
}
