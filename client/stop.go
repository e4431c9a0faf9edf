package client

import "strings"

// stopper finds stop texts in a growing text and holds back what could begin one. The
// texts are matched wherever token borders lie.
type stopper struct {
	stops []string
	held  string // the end of the text so far that is not shown yet
}

// push adds text. It returns what may be shown; when a stop text is complete it returns
// what stands before it and the stop text that begins first (of two that begin together
// the longer), and the stopper is done.
func (s *stopper) push(text string) (show, match string) {
	s.held += text
	at := -1
	for _, stop := range s.stops {
		i := strings.Index(s.held, stop)
		if stop == "" || i < 0 {
			continue
		}
		if at < 0 || i < at || i == at && len(stop) > len(match) {
			at, match = i, stop
		}
	}
	if at >= 0 {
		show, s.held = s.held[:at], ""
		return show, match
	}
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
				break
			}
		}
	}
	cut := len(s.held) - keep
	show, s.held = s.held[:cut], s.held[cut:]
	return show, ""
}

// flush returns what was held back, at the end of a turn.
func (s *stopper) flush() string {
	held := s.held
	s.held = ""
	return held
}
