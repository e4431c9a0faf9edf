package view

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestFormats(t *testing.T) {
	rate := func(f float64) string { return Rate(&f) }
	for _, c := range []struct{ what, got, want string }{
		{"count", Count(0), "0"}, {"count", Count(999), "999"}, {"count", Count(1000), "1k"}, {"count", Count(24_560), "24.6k"}, {"count", Count(999_499), "999k"},
		{"count", Count(999_600), "1M"}, {"count", Count(1_250_000), "1.2M"}, {"count", Count(3_000_000_000), "3G"},
		{"rate", Rate(nil), NotMeasured}, {"rate", rate(0.25), "0.2 tok/s"}, {"rate", rate(41.32), "41.3 tok/s"}, {"rate", rate(113.4), "113 tok/s"}, {"rate", rate(1180), "1.2k tok/s"},
		{"round trip", Millis(3.21), "3.2 ms"}, {"round trip", Millis(41.4), "41 ms"}, {"round trip", Millis(5230), "5.2 s"},
		{"period", Period(250 * time.Millisecond), "250 ms"}, {"period", Period(5 * time.Second), "5 s"}, {"period", Period(2500 * time.Millisecond), "2.5 s"},
		{"period", Period(10 * time.Minute), "10 min"}, {"period", Period(24 * time.Hour), "24 h"}, {"period", Period(8 * 24 * time.Hour), "8 d"},
		{"plural", Plural(1, "server"), "1 server"}, {"plural", Plural(0, "server"), "0 servers"},
		{"id", ShortID("12D3KooWE8n037pQ7vYb2kXf5tRmJ4hLwZs9cTgUaDr6NqVoMxP01"), "12D3…oMxP01"}, {"id", ShortID("short"), "short"},
		{"cut", Cut("äöü", 3), "äöü"}, {"cut", Cut("äöüß", 3), "äö…"},
		{"clock", Clock(time.Date(2026, 3, 1, 13, 4, 5, 0, time.FixedZone("CET", 3600))), "1 Mar 12:04:05 UTC"},
		{"quote", Quote("smollm2-135m"), "smollm2-135m"}, {"quote", Quote("owner/name@rev"), "owner/name@rev"}, {"quote", Quote(""), "''"}, {"quote", Quote("a b"), "'a b'"},
		{"quote", Quote("it's"), `'it'\''s'`}, {"quote", Quote("$(rm)"), "'$(rm)'"}, {"quote", Quote("--flag"), "'--flag'"}, {"quote", Quote("a\nb"), "'a\nb'"}, {"quote", Quote("~"), "'~'"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
}

func TestPublicName(t *testing.T) {
	for in, want := range map[string]Name{
		"":                                       {},
		"Ann of the attic":                       {Text: "Ann of the attic"},
		"  two \t\n lines ":                      {Text: "two lines"},
		"<b>":                                    {Text: "<b>"}, // escaped where it is shown
		"\u202eevil\u200b\x00\x1b[31m":           {Text: "evil[31m"},
		"\xff\xfe":                               {},
		"https://example.org/lab":                {Text: "https://example.org/lab", Link: "https://example.org/lab"},
		"http://user:word@example.org":           {Text: "http://user:word@example.org"},
		"javascript:alert(1)":                    {Text: "javascript:alert(1)"},
		"ftp://example.org":                      {Text: "ftp://example.org"},
		"https://":                               {Text: "https://"},
		"see https://example.org":                {Text: "see https://example.org"},
		strings.Repeat("ä", MaxName+1):           {Text: strings.Repeat("ä", MaxName-1) + "…"},
		"https://a.b/" + strings.Repeat("c", 40): {Text: "https://a.b/" + strings.Repeat("c", 27) + "…", Link: "https://a.b/" + strings.Repeat("c", 40)},
	} {
		if got := PublicName(in); got != want {
			t.Errorf("%q: %+v, want %+v", in, got, want)
		}
	}
}

func FuzzPublicName(f *testing.F) {
	f.Add("Ann")
	f.Add("https://example.org/\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		n := PublicName(s)
		if utf8.RuneCountInString(n.Text) > MaxName || !utf8.ValidString(n.Text) {
			t.Errorf("%q is shown as %q", s, n.Text)
		}
		for _, r := range n.Text {
			if !unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("%q is shown with %U", s, r)
			}
		}
		if n.Link != "" && !strings.HasPrefix(n.Link, "https://") && !strings.HasPrefix(n.Link, "http://") {
			t.Errorf("%q links to %q", s, n.Link)
		}
	})
}

func FuzzQuote(f *testing.F) {
	f.Add("it's")
	f.Add("a b$c`d\\")
	f.Fuzz(func(t *testing.T, s string) {
		if got := unquote(t, Quote(s)); got != s {
			t.Errorf("%q reads as %q", Quote(s), got)
		}
	})
}

// unquote reads one word as a shell does, and fails if it is not one.
func unquote(t *testing.T, word string) string {
	var out strings.Builder
	for word != "" {
		switch {
		case word[0] == '\'':
			end := strings.IndexByte(word[1:], '\'')
			if end < 0 {
				t.Fatalf("%q ends within quotes", word)
			}
			out.WriteString(word[1 : 1+end])
			word = word[2+end:]
		case strings.HasPrefix(word, `\'`):
			out.WriteByte('\'')
			word = word[2:]
		case strings.ContainsRune(" \t\n$`\"\\;&|<>()*?[]#~!{}", rune(word[0])):
			t.Fatalf("%q has a special character outside quotes", word)
		default:
			out.WriteByte(word[0])
			word = word[1:]
		}
	}
	return out.String()
}
