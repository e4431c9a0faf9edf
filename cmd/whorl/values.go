package main

import (
	"fmt"
	"strings"
	"time"

	"whorl/internal/wiring"

	"github.com/spf13/pflag"
)

// secondsVar adds a duration flag.
func secondsVar(fs *pflag.FlagSet, d *time.Duration, name, usage string) {
	fs.Var((*wiring.Seconds)(d), name, usage)
}

// choice is a flag that takes one of a few words.
type choice struct {
	value *string
	words []string
}

func choiceVar(fs *pflag.FlagSet, value *string, name, def string, words []string, usage string) {
	*value = def
	fs.Var(&choice{value, words}, name, usage+": "+strings.Join(words, ", "))
}

func (c *choice) Set(text string) error {
	for _, w := range c.words {
		if text == w {
			*c.value = text
			return nil
		}
	}
	return fmt.Errorf("%q is unknown: want %s", text, strings.Join(c.words, ", "))
}

func (c *choice) String() string {
	if c.value == nil { // of a zero value, which pflag asks too
		return ""
	}
	return *c.value
}

func (c *choice) Type() string { return "word" }
