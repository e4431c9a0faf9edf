package hidden

import (
	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/swarm"
)

// model is what sizes follow from.
type model struct {
	client.Model
	hidden int
}

// size is how many values a message has behind its header, and the bytes that it takes here until
// it is answered.
type size struct {
	rows, grads, prompts, ids int
	values                    int // of all
	bytes                     int64
}

// Limits of a request, whatever its user's share is.
const (
	maxRows    = 1 << 16
	maxPrompts = 1 << 24 // rows of prompts of all blocks and sequences
)

// How often rows are held, in float32: as they come, in parts that are sent to servers, as they come
// from there, and as a reply. What a backward pass keeps of the way is taken when it is known.
const (
	stepCopies     = 4
	forwardCopies  = 5
	backwardCopies = 9
	headCopies     = 3
	logitsCopies   = 2
	promptCopies   = 3
)

// sizeOf checks the sizes that a header says: an error is the caller's, and nothing was taken yet.
func (m *model) sizeOf(q *gen.HiddenRequest) (size, error) {
	var s size
	var copies, rows int
	var more int64 // values beside
	switch q.Type {
	case gen.HiddenRequestTypeTruncate, gen.HiddenRequestTypeClose:
		return s, nil
	case gen.HiddenRequestTypeOpen:
		length := api.Value(q.MaxLength, 0)
		if length < 1 || length > m.MaxLength {
			return s, api.Invalid("max_length", "max_length is %d: want 1 to %d", length, m.MaxLength)
		}
		more = int64(api.Value(q.Batch, 1)) * int64(length) * int64(m.hidden) // the rows that it is given
	case gen.HiddenRequestTypeStep, gen.HiddenRequestTypeForward, gen.HiddenRequestTypeBackward:
		for _, n := range q.Lengths {
			if rows += n; rows > maxRows {
				return s, api.Invalid("lengths", "lengths are more than %d rows together", maxRows)
			}
		}
		if rows == 0 {
			return s, api.Invalid("lengths", "lengths is missing, or there are no rows in it")
		}
		copies = stepCopies
	default:
		if rows = api.Value(q.Rows, 0); rows == 0 {
			return s, api.Invalid("rows", "rows is missing: say how many are behind the header")
		}
		copies = headCopies
	}
	s.rows = rows * m.hidden
	switch q.Type {
	case gen.HiddenRequestTypeForward:
		copies = forwardCopies
	case gen.HiddenRequestTypeBackward:
		s.grads, copies = s.rows, backwardCopies
	case gen.HiddenRequestTypeEmbed:
		s.rows, s.ids = 0, rows
	case gen.HiddenRequestTypeNormBackward:
		s.grads = s.rows
	case gen.HiddenRequestTypeLogits:
		more = logitsCopies * int64(rows) * int64(m.Vocab)
	case gen.HiddenRequestTypeLogitsBackward:
		s.grads = rows * m.Vocab
		more = logitsCopies * int64(s.grads)
	case gen.HiddenRequestTypeLoss:
		s.ids = rows
		more = lossCopies * lossRows * int64(m.Vocab)
	}
	prompts, err := m.promptsOf(q)
	if err != nil {
		return s, err
	}
	s.prompts = prompts * m.hidden
	s.values = s.rows + s.grads + s.prompts + s.ids
	more += promptCopies * int64(s.prompts)
	if q.Type == gen.HiddenRequestTypeBackward { // their gradients come for each sequence
		more += promptCopies * int64(api.Value(q.Prompt, 0)*len(q.Lengths)*(q.Blocks.End-q.Blocks.Start)) * int64(m.hidden)
	}
	s.bytes = 4 * (int64(copies)*int64(rows)*int64(m.hidden) + int64(s.ids) + more)
	return s, nil
}

// promptsOf is how many rows of prompts are behind a header.
func (m *model) promptsOf(q *gen.HiddenRequest) (int, error) {
	tables := len(q.Lengths)
	switch q.Type {
	case gen.HiddenRequestTypeOpen:
		tables = api.Value(q.Batch, 1)
	case gen.HiddenRequestTypeForward, gen.HiddenRequestTypeBackward:
	default:
		return 0, nil
	}
	span, err := m.span(q)
	if err != nil {
		return 0, err
	}
	q.Blocks = &gen.Span{Start: span.Start, End: span.End}
	prompt := api.Value(q.Prompt, 0)
	if all := int64(span.Len()) * int64(tables) * int64(prompt); all > maxPrompts {
		return 0, api.Invalid("prompt", "prompts of %d rows for %d sequences in front of %d blocks: at most %d in all", prompt, tables, span.Len(), maxPrompts)
	}
	if api.Value(q.Shared, false) {
		tables = 1
	}
	return span.Len() * tables * prompt, nil
}

// span is the blocks that a request is about; all if it does not say.
func (m *model) span(q *gen.HiddenRequest) (swarm.Span, error) {
	all := swarm.Span{Start: 0, End: m.Manifest.Blocks}
	if q.Blocks == nil {
		return all, nil
	}
	span := swarm.Span{Start: q.Blocks.Start, End: q.Blocks.End}
	if span.Start >= span.End || !all.Contains(span) {
		return span, api.Invalid("blocks", "blocks %v: %s has blocks %v", span, m.Name, all)
	}
	return span, nil
}
