package main

import (
	"strings"
	"testing"

	"whorl/model/tokenizer"
)

// The answer is clipped to the room; then the oldest turns go, the system message never.
func TestFit(t *testing.T) {
	// A message takes as many tokens as its content has bytes, a letter tells which it is.
	encode := func(ms []tokenizer.Message) ([]int32, error) {
		n := 0
		for _, m := range ms {
			n += len(m.Content)
		}
		return make([]int32, n), nil
	}
	talk := func(spec string) (ms []tokenizer.Message) { // "s10 u5 a5": roles and lengths
		for _, part := range strings.Fields(spec) {
			n := 0
			for _, c := range part[1:] {
				n = 10*n + int(c-'0')
			}
			role := map[byte]string{'s': "system", 'u': "user", 'a': "assistant"}[part[0]]
			ms = append(ms, tokenizer.Message{Role: role, Content: strings.Repeat("x", n)})
		}
		return ms
	}
	for _, c := range []struct {
		talk             string
		positions, asked int
		kept             string
		answer, gone     int
	}{
		{"u10", 200, 80, "u10", 80, 0},
		{"s20 u50 a50 u9", 200, 80, "s20 u50 a50 u9", 71, 0}, // 129 of 200 used: clipped
		{"s20 u50 a50 u40", 200, 80, "s20 u40", 80, 2},       // 40 left is less than a quarter
		{"s20 u50 a50 u20", 200, 80, "s20 u50 a50 u20", 60, 0},
		{"u50 a50 u50 a20 u10", 200, 80, "u50 a20 u10", 80, 2},
		{"u50 a50 u150 a20 u10", 200, 80, "u10", 80, 4},
		{"u50 a50 u199", 200, 80, "u199", 1, 2},
		{"s20 u50 a50 u180", 200, 80, "s20 u180", 0, 2},
		{"s20 u190 a5 u5", 200, 3, "s20 u5", 3, 2},
		{"s20 u150 a5 u5", 200, 3, "s20 u150 a5 u5", 3, 0},
	} {
		got, err := fit(talk(c.talk), c.positions, c.asked, encode)
		want := talk(c.kept)
		same := len(got.messages) == len(want)
		for i := 0; same && i < len(want); i++ {
			same = got.messages[i].Role == want[i].Role && got.messages[i].Content == want[i].Content
		}
		if err != nil || !same || got.answer != c.answer || got.gone != c.gone {
			t.Errorf("%s: %d messages, answer %d, %d gone, %v", c.talk, len(got.messages), got.answer, got.gone, err)
		}
	}
}
