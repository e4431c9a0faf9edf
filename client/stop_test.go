package client

import (
	"strings"
	"testing"
)

func TestStopper(t *testing.T) {
	for _, c := range []struct {
		name   string
		stops  []string
		pieces []string
		shown  []string
		match  string
	}{
		{"no stops", nil, []string{"a", "b"}, []string{"a", "b"}, ""},
		{"across pieces", []string{"###"}, []string{"x#", "#", "#y"}, []string{"x", "", ""}, "###"},
		{"false alarm is shown later", []string{"###"}, []string{"x##", "y"}, []string{"x", "##y"}, ""},
		{"held to the end", []string{"###"}, []string{"x##"}, []string{"x", "##"}, ""},
		{"inside a piece", []string{"stop"}, []string{"a stop b"}, []string{"a "}, "stop"},
		{"the earlier of two", []string{"cd", "bc"}, []string{"abcd"}, []string{"a"}, "bc"},
		{"the longer of two that begin together", []string{"b", "bc"}, []string{"abc"}, []string{"a"}, "bc"},
		{"repeated prefix", []string{"aab"}, []string{"a", "a", "a", "b"}, []string{"", "", "a", ""}, "aab"},
		{"multi-byte", []string{"é!"}, []string{"xé", "?"}, []string{"x", "é?"}, ""},
		{"an empty stop text is none", []string{""}, []string{"a"}, []string{"a"}, ""},
	} {
		s := stopper{stops: c.stops}
		var shown []string
		match := ""
		for _, p := range c.pieces {
			var show string
			show, match = s.push(p)
			shown = append(shown, show)
			if match != "" {
				break
			}
		}
		if held := s.flush(); held != "" {
			shown = append(shown, held)
		}
		if strings.Join(shown, "|") != strings.Join(c.shown, "|") || match != c.match {
			t.Errorf("%s: shown %q, match %q; want %q, %q", c.name, shown, match, c.shown, c.match)
		}
	}
}
