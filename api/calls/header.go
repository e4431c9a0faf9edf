package calls

import (
	"encoding/json"
	"strings"
)

// scanner finds the end of a JSON value that is an object or a list.
type scanner struct {
	depth         int
	text, escaped bool // inside a text, behind a backslash
}

// run reads on; n is how much belongs to the value, and done that it ends there.
func (s *scanner) run(in string) (n int, done bool) {
	for i := 0; i < len(in); i++ {
		switch c := in[i]; {
		case s.escaped:
			s.escaped = false
		case s.text:
			s.escaped, s.text = c == '\\', c != '"'
		case c == '"':
			s.text = true
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			if s.depth--; s.depth <= 0 {
				return i + 1, true
			}
		}
	}
	return len(in), false
}

type state int

const (
	more  state = iota // too little came to know
	found              // a call, up to its arguments or to its end
	none               // no call
)

// header reads the beginning of a call.
type header struct {
	s     string
	known map[string]bool
	named bool // a call may be a name, "[ARGS]" and the arguments

	state     state
	at        int    // behind what was read
	name      string // of the tool
	plain     bool   // the arguments stand alone
	whole     bool   // the call was read to its end
	arguments string // of a whole call
}

func (h *header) white() {
	for h.at < len(h.s) && strings.IndexByte(white, h.s[h.at]) >= 0 {
		h.at++
	}
}

// has skips a text; unsure says that it may be about to come.
func (h *header) has(text string) (there, unsure bool) {
	rest := h.s[h.at:]
	if strings.HasPrefix(rest, text) {
		h.at += len(text)
		return true, false
	}
	return false, strings.HasPrefix(text, rest)
}

// read finds out whether a call begins. It depends on what stands before the end of the header
// alone.
func (h *header) read() {
	h.state = more
	h.white()
	if fence, unsure := h.has("```json"); unsure && h.at < len(h.s) {
		return
	} else if fence {
		h.white()
	}
	if list, _ := h.has("["); list {
		h.white()
	}
	if h.at == len(h.s) {
		return
	}
	if h.s[h.at] == '{' {
		h.at++
		h.members()
		return
	}
	if h.named {
		h.bareName()
		return
	}
	h.state = none
}

// bareName reads a name in front of its arguments.
func (h *header) bareName() {
	end := h.at
	for end < len(h.s) && (h.s[end] == '_' || h.s[end] == '-' || h.s[end] == '.' || h.s[end] >= '0' && h.s[end] <= '9' || h.s[end]|32 >= 'a' && h.s[end]|32 <= 'z') {
		end++
	}
	if end == len(h.s) {
		return
	}
	h.name, h.at = h.s[h.at:end], end
	if !h.known[h.name] {
		h.state = none
		return
	}
	if id, unsure := h.has("[CALL_ID]"); unsure {
		return
	} else if id {
		i := strings.IndexByte(h.s[h.at:], '[')
		if i < 0 {
			return
		}
		h.at += i
	}
	if args, unsure := h.has("[ARGS]"); unsure {
		return
	} else if !args && h.s[h.at] != '{' {
		h.state = none
		return
	}
	h.white()
	switch {
	case h.at == len(h.s):
	case h.s[h.at] == '{':
		h.state, h.plain = found, true
	default:
		h.state = none
	}
}

// members reads those of a call's object.
func (h *header) members() {
	arguments, some := "", false
	for {
		key, ok := h.textValue()
		if !ok || !h.mark(':') {
			return
		}
		if h.at == len(h.s) {
			return
		}
		switch c := h.s[h.at]; {
		case key == "name" || key == "tool_name":
			if h.name, ok = h.textValue(); !ok {
				return
			}
			if !h.known[h.name] {
				h.state = none
				return
			}
		case key != "arguments" && key != "parameters":
			if _, ok := h.value(); !ok {
				return
			}
		case c == '{' && h.name != "":
			h.state = found
			return
		default:
			raw, ok := h.value()
			if !ok {
				return
			}
			switch {
			case c == '{':
				arguments = raw
			case c == '"': // a text that spells them
				if json.Unmarshal([]byte(raw), &arguments) != nil {
					h.state = none
					return
				}
			case raw == "null":
				arguments = "{}"
			default:
				h.state = none
				return
			}
			some = true
		}
		h.white()
		if h.at == len(h.s) {
			return
		}
		h.at++
		switch h.s[h.at-1] {
		case ',':
			continue
		case '}':
			h.state = none
			if h.name != "" {
				if !some {
					arguments = "{}"
				}
				h.state, h.whole, h.arguments = found, true, arguments
			}
			return
		}
		h.state = none
		return
	}
}

// mark skips a character between white space.
func (h *header) mark(c byte) bool {
	h.white()
	if h.at == len(h.s) {
		return false
	}
	if h.s[h.at] != c {
		h.state = none
		return false
	}
	h.at++
	h.white()
	return true
}

// textValue reads a JSON text; false if there is none, or not all of it.
func (h *header) textValue() (string, bool) {
	h.white()
	if h.at == len(h.s) {
		return "", false
	}
	if h.s[h.at] != '"' {
		h.state = none
		return "", false
	}
	raw, ok := h.value()
	if !ok {
		return "", false
	}
	var out string
	if json.Unmarshal([]byte(raw), &out) != nil {
		h.state = none
		return "", false
	}
	return out, true
}

// value reads a JSON value without looking into it; false if not all of it is there.
func (h *header) value() (string, bool) {
	begin := h.at
	switch h.s[begin] {
	case '{', '[':
		s := scanner{}
		n, done := s.run(h.s[begin:])
		h.at += n
		return h.s[begin:h.at], done
	case '"':
		for i := begin + 1; i < len(h.s); i++ {
			switch h.s[i] {
			case '\\':
				i++
			case '"':
				h.at = i + 1
				return h.s[begin:h.at], true
			}
		}
		return "", false
	}
	n := strings.IndexAny(h.s[begin:], ",}]"+white)
	if n < 0 {
		return "", false
	}
	if n == 0 {
		h.state = none
		return "", false
	}
	h.at += n
	return h.s[begin:h.at], true
}
