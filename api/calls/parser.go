package calls

import "strings"

// Part is a piece of what an answer says: text, or of a call.
type Part struct {
	Text string
	Call *Delta // nil for text
}

// Delta is a piece of a call. The first one of a call has its name.
type Delta struct {
	Index     int    // of the call in the answer
	Name      string // of the tool
	Arguments string // a piece of them: JSON, as the model wrote it
}

type mode int

const (
	starting  mode = iota // of an answer that may begin with a call without a mark
	reading               // text
	opened                // behind a mark: a call may begin
	arguing               // in the arguments of a call
	closing               // behind them, in the object of the call
	following             // behind a call: another one may begin, or the calls end
)

// maxHeader is how much of a call may come before its arguments are told: more is text.
const maxHeader = 16 << 10

// Parser takes an answer apart. How it is cut into pieces makes no difference to what they are
// when joined. Not for concurrent use.
type Parser struct {
	f     Format
	known map[string]bool
	mode  mode
	held  string // not yet understood
	gap   string // white space before it, and the mark that was read: text, if no call follows
	scan  scanner
	plain bool // the arguments stand alone, without an object around them
	calls int
	out   []Part
}

// NewParser begins an answer that may call the tools of these names. With open its beginning was
// given to the model: a call comes at once.
func NewParser(f Format, names []string, open bool) *Parser {
	p := &Parser{f: f, known: map[string]bool{}, mode: reading}
	for _, n := range names {
		p.known[n] = true
	}
	switch {
	case open:
		p.mode = opened
	case f.bare:
		p.mode = starting
	}
	return p
}

// Calls is how many calls there are so far.
func (p *Parser) Calls() int { return p.calls }

// Clone is one that goes on from here on its own.
func (p *Parser) Clone() *Parser {
	c := *p
	c.out = nil
	return &c
}

// Arguing tells whether what came last belongs to the arguments of a call.
func (p *Parser) Arguing() bool { return p.mode == arguing }

// leastCall is the length in bytes of the shortest call without its mark.
const leastCall = len(`{"name":"x"}`)

// Least is how many bytes have to come, at the least, before the next call can begin its arguments,
// or be there as a whole.
func (p *Parser) Least() int {
	short := p.f.shortIDs // a name and a brace may do
	switch {
	case p.mode == opened && (short || strings.Contains(p.held, "name")), p.mode == following && short:
		return 1
	case p.mode == opened:
		return leastCall - len(p.held)
	case p.mode == reading && short && p.held != "":
		return len("]x{")
	case p.mode == reading: // the end of the mark at least
		return leastCall + 1
	}
	return leastCall
}

// Push adds text and returns what is known by now.
func (p *Parser) Push(text string) []Part {
	p.held += text
	for p.step(false) {
	}
	return p.take()
}

// Flush ends the answer.
func (p *Parser) Flush() []Part {
	for p.step(true) {
	}
	return p.take()
}

func (p *Parser) take() []Part {
	out := p.out
	p.out = nil
	return out
}

// say tells text, behind white space that was held back.
func (p *Parser) say(text string) {
	text = p.gap + text
	if p.gap = ""; text == "" {
		return
	}
	if n := len(p.out); n > 0 && p.out[n-1].Call == nil {
		p.out[n-1].Text += text
		return
	}
	p.out = append(p.out, Part{Text: text})
}

// argue tells a piece of the arguments of the last call.
func (p *Parser) argue(text string) {
	if text != "" {
		p.out = append(p.out, Part{Call: &Delta{Index: p.calls - 1, Arguments: text}})
	}
}

// step understands some of what is held; false if more has to come. last says that none will.
func (p *Parser) step(last bool) bool {
	switch p.mode {
	case starting:
		return p.start(last)
	case reading:
		return p.read(last)
	case opened:
		return p.open(last)
	case arguing:
		n, done := p.scan.run(p.held)
		p.argue(p.held[:n])
		if p.held = p.held[n:]; done {
			if p.mode = closing; p.plain {
				p.mode = following
			} else {
				p.scan = scanner{depth: 1}
			}
		}
		return done
	case closing:
		n, done := p.scan.run(p.held)
		if p.held = p.held[n:]; done {
			p.mode = following
		}
		return done
	}
	return p.follow(last)
}

const white = " \t\r\n"

// start looks whether an answer begins with an object.
func (p *Parser) start(last bool) bool {
	begin := strings.TrimLeft(p.held, white)
	if begin == "" && !last {
		return false
	}
	p.gap, p.held, p.mode = p.held[:len(p.held)-len(begin)], begin, reading
	if strings.HasPrefix(begin, "{") {
		p.mode = opened
	}
	return true
}

// read tells text up to a mark.
func (p *Parser) read(last bool) bool {
	at, mark := -1, ""
	for _, m := range p.f.marks {
		if i := strings.Index(p.held, m); i >= 0 && (at < 0 || i < at) {
			at, mark = i, m
		}
	}
	if at >= 0 {
		text := strings.TrimRight(p.held[:at], white)
		if text != "" {
			p.say(text)
		}
		p.gap += p.held[len(text) : at+len(mark)]
		p.held, p.mode = p.held[at+len(mark):], opened
		return true
	}
	keep := 0 // what may begin a mark, and white space before it
	if !last {
		for _, m := range p.f.marks {
			keep = max(keep, beginning(p.held, m))
		}
		keep = len(p.held) - len(strings.TrimRight(p.held[:len(p.held)-keep], white))
	}
	if show := p.held[:len(p.held)-keep]; show != "" && (p.calls == 0 || strings.Trim(show, white) != "") {
		p.say(show)
	}
	p.held = p.held[len(p.held)-keep:]
	if last && p.calls == 0 {
		p.say("")
	}
	return false
}

// beginning is how much of the end of a text may begin a mark.
func beginning(text, mark string) int {
	for n := min(len(mark)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}

// open reads a call up to its arguments, or finds that there is none.
func (p *Parser) open(last bool) bool {
	h := header{s: p.held, known: p.known, named: p.f.shortIDs}
	switch h.read(); {
	case h.state == more && !last && len(p.held) <= maxHeader:
		return false
	case h.state != found || h.at > maxHeader:
		p.mode = reading
		p.say("")
		return true
	}
	p.gap = ""
	p.out = append(p.out, Part{Call: &Delta{Index: p.calls, Name: h.name}})
	p.calls++
	p.held, p.plain, p.scan = p.held[h.at:], h.plain, scanner{}
	if p.mode = arguing; h.whole {
		p.argue(h.arguments)
		p.mode = following
	}
	return true
}

// follow looks for another call behind one.
func (p *Parser) follow(last bool) bool {
	rest := strings.TrimLeft(p.held, white+",;]")
	if rest == "" && !last {
		return false
	}
	for _, m := range p.f.ends {
		if after, ok := strings.CutPrefix(rest, m); ok {
			p.held = after
			return true
		}
		if !last && strings.HasPrefix(m, rest) {
			return false
		}
	}
	another := strings.HasPrefix(rest, "{")
	if !another && p.f.shortIDs { // it may be a name and its arguments
		h := header{s: rest, known: p.known, named: true}
		if h.read(); h.state == more && !last && len(rest) <= maxHeader {
			return false
		}
		another = h.state == found
	}
	if another {
		p.held, p.mode = rest, opened
		return true
	}
	// What follows is text: only the white space before it is.
	gap := p.held[:len(p.held)-len(rest)]
	p.gap = gap[strings.LastIndexAny(gap, ",;]")+1:]
	p.held, p.mode = rest, reading
	return true
}
