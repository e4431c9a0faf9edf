package routes

import (
	"strings"
	"testing"

	"whorl/api/gen"
	"whorl/internal/meter"
)

// Of bodies full of tiny values, the worst that is taken allocates little, and one that is
// refused next to nothing: it is refused before it is decoded.
// values is how many a request may have.
const values = 1 << 18

func TestTinyValues(t *testing.T) {
	const most, refusal = 64 << 20, 1 << 20 // bytes in all
	a := newBench(t, nil).api
	list := func(item string, n int) string { return "[" + strings.Repeat(item+",", n) + item + "]" }
	chat := func(more string) string { return `{"messages":[{"role":"user","content":"a"}],` + more + `}` }
	for name, c := range map[string]struct {
		body  func(n int) string
		units int // values of one item
	}{
		"numbers": {func(n int) string { return chat(`"chat_template_kwargs":{"x":` + list("1.5", n) + `}`) }, 1},
		"objects": {func(n int) string { return chat(`"tools":[{"x":` + list("{}", n) + `}]`) }, 2},
		"pairs":   {func(n int) string { return chat(`"tools":[{"x":` + list(`{"a":0}`, n) + `}]`) }, 3},
		"unknown": {func(n int) string { return chat(`"zz":` + list(`{"a":[]}`, n)) }, 4},
		"parts": {func(n int) string {
			return `{"messages":[{"role":"user","content":` + list(`{"type":"text","text":""}`, n) + `}]}`
		}, 5},
		"arguments": {func(n int) string {
			return `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"x":` + list("[]", n) + `}}}]}]}`
		}, 2},
	} {
		decode := func(body string) error {
			var req gen.ChatRequest
			_, err := a.api.Decode([]byte(body), "ChatRequest", &req)
			return err
		}
		fits, exceeds := c.body(values/c.units-20), c.body(values/c.units+20)
		var err error
		if n := meter.Allocated(func() { err = decode(fits) }); err != nil || n > most {
			t.Errorf("%s, which fits: %d bytes allocated, %v: want at most %d", name, n, err, most)
		} else {
			t.Logf("%s: %d bytes of JSON, %d allocated", name, len(fits), n)
		}
		if n := meter.Allocated(func() { err = decode(exceeds) }); err == nil || !strings.Contains(err.Error(), "more than 262144 values") || n > refusal+uint64(len(exceeds)) {
			t.Errorf("%s, which exceeds: %d bytes allocated, %v", name, n, err)
		}
	}
	deep, wide := chat(`"tools":[{"x":`+strings.Repeat("[", 90)+strings.Repeat("]", 90)+`}]`), chat(`"x":`+list("1", values))
	for body, want := range map[string]string{deep: "nested more than 80 deep", wide: "more than 262144 values"} {
		for _, route := range []string{"/v1/chat/completions", "/v1/completions", "/api/v1/generate"} {
			w := do(a.Public(), "POST", route, body)
			if ok := w.Code == 400 || route == "/api/v1/generate"; !ok || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: status %d, %s: want %s", route, w.Code, w.Body, want)
			}
		}
	}
}
