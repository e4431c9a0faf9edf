package golden

import "strings"

// firstDifference finds the first line, counted from 1, in which two texts differ.
func firstDifference(got, want string) (line int, g, w string, same bool) {
	if got == want {
		return 0, "", "", true
	}
	gs, ws := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	at := func(list []string, i int) string {
		if i < len(list) {
			return list[i]
		}
		return ""
	}
	for i := 0; ; i++ {
		if g, w := at(gs, i), at(ws, i); g != w {
			return i + 1, g, w, false
		}
	}
}
