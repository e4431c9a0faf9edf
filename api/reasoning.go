package api

import "strings"

// What models that think put around their thoughts.
const (
	thoughtOpens  = "<think>"
	thoughtCloses = "</think>"
)

// phase is where in an answer a text is.
type phase int

const (
	beforeAll phase = iota // nothing but white space came: a thought may begin
	thinking
	answering
)

// Splitter takes the thoughts of an answer apart from what it says, however the text comes in
// pieces. Only a thought at the beginning counts: what looks like one later is text.
type Splitter struct {
	at      phase
	held    string // may belong to a mark
	bare    bool   // nothing was said yet behind a mark: line ends there are left out
	thought bool   // there is one
}

// NewSplitter begins an answer to a prompt. A model whose template knows no thoughts has none;
// some templates write the mark that opens one themselves.
func NewSplitter(e Engine, prompt []int32) Splitter {
	if !e.Thinks() {
		return Splitter{at: answering}
	}
	const tail = 8 // ids that may spell the mark and what is behind it
	end := strings.TrimSpace(e.Decode(prompt[max(0, len(prompt)-tail):]))
	if strings.HasSuffix(end, thoughtOpens) {
		return Splitter{at: thinking, bare: true, thought: true}
	}
	return Splitter{}
}

// Push adds text and returns what of it is known.
func (s *Splitter) Push(text string) (thought, said string) {
	s.held += text
	if s.at == beforeAll {
		begin := strings.TrimLeft(s.held, " \t\r\n")
		switch {
		case strings.HasPrefix(begin, thoughtOpens):
			s.at, s.bare, s.thought, s.held = thinking, true, true, begin[len(thoughtOpens):]
		case strings.HasPrefix(thoughtOpens, begin):
			return "", ""
		default:
			s.at = answering
		}
	}
	if s.at == thinking {
		if before, after, closed := strings.Cut(s.held, thoughtCloses); closed {
			thought = strings.TrimRight(s.trim(before), "\r\n")
			s.at, s.bare, s.held = answering, true, after
		} else {
			show := len(before) - mayBegin(before, thoughtCloses)
			thought, s.held = s.trim(before[:show]), before[show:]
			return thought, ""
		}
	}
	said, s.held = s.trim(s.held), ""
	return thought, said
}

// Flush ends the text.
func (s *Splitter) Flush() (thought, said string) {
	text := s.held
	s.held = ""
	if s.at == thinking {
		return strings.TrimRight(s.trim(text), "\r\n"), ""
	}
	return "", s.trim(text)
}

// trim leaves out line ends behind a mark.
func (s *Splitter) trim(text string) string {
	if s.bare {
		text = strings.TrimLeft(text, "\r\n")
		s.bare = text == ""
	}
	return text
}

// mayBegin is how many bytes at the end of a text may begin a mark, with line ends before it.
func mayBegin(text, mark string) int {
	keep := 0
	for n := min(len(mark)-1, len(text)); n > 0 && keep == 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			keep = n
		}
	}
	return len(text) - len(strings.TrimRight(text[:len(text)-keep], "\r\n"))
}

// ThoughtTokens is how many ids of an answer to a prompt belong to its thought, the marks counted
// too.
func ThoughtTokens(e Engine, prompt, ids []int32) int {
	s := NewSplitter(e, prompt)
	n := 0
	for ; n < len(ids) && s.at != answering; n++ {
		s.Push(string(e.TokenBytes(ids[n], n == 0)))
	}
	if !s.thought {
		return 0
	}
	return n
}
