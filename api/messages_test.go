package api

import (
	"encoding/json"
	"testing"
)

// What clients and models write for the arguments of a call.
func TestCallArguments(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{`"{\"a\":1}"`, `{"a":1}`}, {`{"a":1}`, `{"a":1}`}, {`""`, `{}`}, {`" \n"`, `{}`}, {`"null"`, `{}`}, {`null`, `{}`}, {``, `{}`},
		{`"{\"a\":"`, `"{\"a\":"`}, {`"[1]"`, `"[1]"`}, {`[1]`, `"[1]"`}, {`7`, `"7"`}, {`"call me"`, `"call me"`},
	} {
		if got, object := callArguments(json.RawMessage(c.given)); string(got) != c.want || object != (c.want[0] == '{') {
			t.Errorf("%s gives %s, %v", c.given, got, object)
		}
	}
}
