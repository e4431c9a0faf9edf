package client

// answerText is the text of an answer of a search while it grows: all that the next id needs
// to know of those before it, so that an id costs the same however long the answer is.
type answerText struct {
	x       *texter
	special bool // Request.Special
	finish  Finish
	match   string // the stop text that ended it
	over    bool   // no id adds to it any more
}

// answerText is that of an answer without ids.
func (t *turn) answerText() answerText {
	return answerText{x: newTexter(t.s.e.cfg.Tokenizer, t.s.e.cfg.EOS, t.r), special: t.r.Special, finish: FinishLength}
}

// push adds an id and returns the text that it adds for certain.
func (a *answerText) push(id int32) string {
	if a.over {
		return ""
	}
	if a.x.isEnd(id) {
		a.finish = FinishEOS
		if !a.special {
			a.over = true
			return ""
		}
	}
	show, match := a.x.push(id)
	a.match, a.over = match, match != ""
	return show
}

// flush ends the text and returns what was held back.
func (a *answerText) flush() string {
	if a.match != "" {
		return ""
	}
	show, match := a.x.flush()
	a.match = match
	return show
}

// stopsWith tells whether the answer would end with a stop text if it were id that came next
// and nothing after that.
func (a answerText) stopsWith(id int32) bool {
	a.x = a.x.clone()
	a.push(id)
	a.flush()
	return a.match != ""
}

// grow gives the texts after a step of a search: text i is that of parents[i] with ids[i].
func grow(texts []answerText, ids []int32, parents []uint8) []answerText {
	next := make([]answerText, len(ids))
	for i, p := range parents {
		next[i] = texts[p]
		next[i].x = texts[p].x.clone()
		next[i].push(ids[i])
	}
	return next
}
