package view

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// NotMeasured stands where a number is not known: never a zero.
const NotMeasured = "not measured"

// Name is text of strangers made fit to be shown.
type Name struct {
	Text string
	Link string // "" unless the whole name is an http or https address
}

// MaxName is how many characters of a name are shown.
const MaxName = 40

// PublicName caps a name, takes out what cannot be seen or turns text around, and finds
// out whether it is an address.
func PublicName(s string) Name {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsGraphic(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)), " ")
	n := Name{Text: Cut(s, MaxName)}
	if u, err := url.Parse(s); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil {
		n.Link = u.String()
	}
	return n
}

// Cut shortens a text to so many characters, the last being an ellipsis.
func Cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// ShortID keeps the ends of an identifier.
func ShortID(id string) string {
	if len(id) <= 13 {
		return id
	}
	return id[:4] + "…" + id[len(id)-6:]
}

// Count writes a number in three digits or so: 950, 24.6k, 1.2M.
func Count(n int64) string {
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10)
	case n < 999_500:
		return short(float64(n)/1e3) + "k"
	case n < 999_500_000:
		return short(float64(n)/1e6) + "M"
	}
	return short(float64(n)/1e9) + "G"
}

func short(f float64) string {
	if f < 99.95 {
		return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// Rate writes tokens per second, or that they are not measured.
func Rate(f *float64) string {
	if f == nil {
		return NotMeasured
	}
	if *f < 1000 {
		return short(*f) + " tok/s"
	}
	return Count(int64(*f+0.5)) + " tok/s"
}

// Millis writes a round trip.
func Millis(ms float64) string {
	switch {
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}

// Period writes a duration in its largest unit: "5 s", "3 min", "2 h", "4 d".
func Period(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + " s"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// Plural writes "1 server", "3 servers".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Clock writes a time as pages show it without a script.
func Clock(t time.Time) string { return t.UTC().Format("2 Jan 15:04:05 UTC") }

// Stamp writes a time for machines.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Quote makes a text one word of a shell command. Model names come from strangers, and
// people paste what the page shows.
func Quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@,+=", r))
	}) && s[0] != '-' {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
