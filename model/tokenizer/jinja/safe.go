package jinja

import "strings"

// safeText is what the filter safe makes: text that escaping leaves alone, which templates
// of models use though nothing escapes here. It can be printed, put together by ~ and join,
// tested and compared like a text. What is added to it by + is escaped, in Python too.
// Taking it apart, and filters over it, are errors that say so.
type safeText struct{ text string }

func safeFilter(r *run, of Value, a passed) Value {
	a.bind("safe")
	if s, ok := of.(*safeText); ok {
		return s
	}
	return &safeText{r.text(of)}
}

// unsafe is a safe text as a plain one, and any other value as it is.
func unsafe(v Value) Value {
	if s, ok := v.(*safeText); ok {
		return s.text
	}
	return v
}

// barSafe fails where v is a safe text, of which the reference would make another.
func barSafe(v Value, what string) {
	if _, ok := v.(*safeText); ok {
		fail("%s safe text is not supported", what)
	}
}

var escaped = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

// plusSafe is + of two texts of which at least one is safe.
func (r *run) plusSafe(left, right Value) (Value, bool) {
	text := ""
	for _, v := range []Value{left, right} {
		switch v := v.(type) {
		case string:
			text += escaped.Replace(v)
		case *safeText:
			text += v.text
		default:
			return nil, false
		}
		r.fits(len(text))
	}
	r.make(len(text))
	return &safeText{text}, true
}
