package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// Stream turns ids into text one at a time. What Push and Flush return, put
// together, is byte for byte what [Tokenizer.Decode] makes of all the ids,
// and each part is valid UTF-8: bytes that are not a whole character yet are
// held back.
//
// Held back are at most three bytes of a byte-level vocabulary. A vocabulary
// with byte fallback holds one byte for each byte token in a row, because the
// reference shows a run of byte tokens as text only if all of it is UTF-8.
//
// A Stream is for one goroutine.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	shown       []int32 // special tokens that are not skipped

	started bool   // something has been shown: the next token is not the first
	pending []byte // bytes of an unfinished character, or of a run of byte tokens
	whole   int    // how much of a run of byte tokens is whole characters
	broken  bool   // the run of byte tokens is not UTF-8: all of it is replaced
	left    int    // characters that may still be stripped off the start
	held    int    // characters at the end that may have to be stripped
	chars   int    // characters that Push returned
	out     []byte // scratch of one Push
}

// NewStream starts a text. With skipSpecial, special tokens add nothing to it.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial, left: t.dec.strip.left}
}

// Show has some special tokens add their text, although others are skipped. Call it before the
// first id.
func (s *Stream) Show(ids []int32) { s.shown = ids }

// Clone is a Stream that goes on from here on its own.
func (s *Stream) Clone() *Stream {
	c := *s
	c.pending, c.out = slices.Clone(s.pending), nil
	return &c
}

// Push adds the next id and returns the text that is certain by now, which
// may be empty. An id outside the vocabulary adds nothing.
func (s *Stream) Push(id int32) string {
	s.out = s.out[:0]
	s.push(id)
	s.chars += utf8.RuneCount(s.out)
	return string(s.out)
}

// Start is where in the text, in characters, an id begins if it is the next: what is held back
// counts. An id that goes on with a character begins where that does.
func (s *Stream) Start(id int32) int {
	at := s.chars + s.held
	b := s.t.TokenBytes(id, false)
	switch {
	case len(s.pending) == 0:
	case s.t.dec.byteFallback && (len(b) == 0 || s.t.entries[id].byte < 0): // the run ends before it
		if s.whole < len(s.pending) {
			return at + len(s.pending)
		}
		return at + utf8.RuneCount(s.pending)
	case s.t.dec.byteFallback:
		return at + utf8.RuneCount(s.pending[:s.whole])
	case len(b) > 0:
		// What is pending is the beginning of one character.
		if n, whole, cut := sequenceAt(append(slices.Clone(s.pending), b...)); !whole && !cut && n <= len(s.pending) {
			at++
		}
	}
	return at
}

// Flush ends the text and returns what was held back; an unfinished character
// becomes U+FFFD. Afterwards the Stream is as new.
func (s *Stream) Flush() string {
	s.out = s.out[:0]
	s.endRun()
	if len(s.pending) > 0 {
		whole, _ := appendLossy(nil, s.pending, true)
		s.pending = s.pending[:0]
		s.emit(whole)
	}
	s.started, s.left, s.held, s.chars = false, s.t.dec.strip.left, 0, 0
	return string(s.out)
}

func (s *Stream) push(id int32) {
	t := s.t
	if id < 0 || int(id) >= len(t.entries) || !t.entries[id].present {
		return
	}
	e := &t.entries[id]
	if s.skipSpecial && e.special && !slices.Contains(s.shown, id) {
		return
	}
	if t.dec.byteFallback {
		if e.byte >= 0 {
			s.pushByte(byte(e.byte))
			return
		}
		s.endRun()
	}
	shown := e.shown
	if !s.started && t.dec.firstDiffers {
		shown = t.dec.shown(e.token, true)
	}
	switch {
	case t.dec.byteLevel:
		s.pending = append(s.pending, shown...)
		s.emitWhole()
	case t.dec.spaced && s.started:
		s.emitString(" ")
		s.emitString(shown)
	default:
		s.emitString(shown)
	}
	s.started = true
}

// emitWhole emits the whole characters of pending and keeps the rest.
func (s *Stream) emitWhole() {
	start := len(s.out)
	out, rest := appendLossy(s.out, s.pending, false)
	s.out = out
	n := copy(s.pending, rest)
	s.pending = s.pending[:n]
	s.strip(start)
}

// pushByte adds a byte token to the run.
func (s *Stream) pushByte(b byte) {
	if s.broken {
		s.emitString("\uFFFD")
		return
	}
	s.pending = append(s.pending, b)
	n, whole, cut := sequenceAt(s.pending[s.whole:])
	switch {
	case whole:
		s.whole += n
	case !cut:
		s.broken = true
		s.replaceRun()
	}
}

// replaceRun shows one replacement character for each byte of the run.
func (s *Stream) replaceRun() {
	for range s.pending {
		s.emitString("\uFFFD")
	}
	s.pending, s.whole = s.pending[:0], 0
}

// endRun ends a run of byte tokens: a token that is none follows, or nothing.
func (s *Stream) endRun() {
	if !s.t.dec.byteFallback {
		return
	}
	s.started = s.started || s.broken || len(s.pending) > 0
	if s.whole == len(s.pending) {
		s.emit(s.pending)
		s.pending, s.whole = s.pending[:0], 0
	} else {
		s.replaceRun()
	}
	s.broken = false
}

func (s *Stream) emit(b []byte) {
	start := len(s.out)
	s.out = append(s.out, b...)
	s.strip(start)
}

func (s *Stream) emitString(text string) {
	start := len(s.out)
	s.out = append(s.out, text...)
	s.strip(start)
}

// strip applies the Strip of the whole text to out[start:], which is new. The
// characters that may turn out to be the stripped end are taken out and
// counted in held.
func (s *Stream) strip(start int) {
	d := &s.t.dec.strip
	for s.left > 0 && start < len(s.out) {
		r, n := utf8.DecodeRune(s.out[start:])
		if r != d.char {
			s.left = 0
			break
		}
		s.left--
		s.out = append(s.out[:start], s.out[start+n:]...)
	}
	if d.right == 0 || start == len(s.out) {
		return
	}
	added := string(s.out[start:])
	s.out = s.out[:start]
	trailing, end := 0, len(added)
	for end > 0 && trailing < d.right {
		r, n := utf8.DecodeLastRuneInString(added[:end])
		if r != d.char {
			break
		}
		end -= n
		trailing++
	}
	// What was held is shown as far as more than right characters follow it.
	free := s.held
	if end == 0 {
		free = max(0, s.held+trailing-d.right)
		trailing += s.held - free
	}
	for range free {
		s.out = utf8.AppendRune(s.out, d.char)
	}
	s.out = append(s.out, added[:end]...)
	s.held = trailing
}
