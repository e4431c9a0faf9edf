package gen

import (
	"encoding/json"
	"fmt"
	"testing"
)

const refused = "refused"

func TestUnions(t *testing.T) {
	for _, c := range []struct {
		in   string
		into any
		want string
	}{
		{`"a"`, new(Texts), `[a]`}, {`["a","b"]`, new(Texts), `[a b]`}, {`null`, new(Texts), `[]`}, {`[1]`, new(Texts), refused}, {`{}`, new(Texts), refused},
		{`"a"`, new(Text), `a`}, {`null`, new(Text), ``}, {`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, new(Text), `ab`},
		{`[{"type":"image_url","text":"a"}]`, new(Text), refused}, {`7`, new(Text), refused},
		{`"a"`, new(Prompts), `{[a] []}`}, {`["a","b"]`, new(Prompts), `{[a b] []}`}, {`[1,2]`, new(Prompts), `{[] [[1 2]]}`}, {`[[1],[2,3]]`, new(Prompts), `{[] [[1] [2 3]]}`},
		{`null`, new(Prompts), refused}, {`[]`, new(Prompts), refused}, {`[1,"a"]`, new(Prompts), refused}, {`[1.5]`, new(Prompts), refused}, {`[9999999999]`, new(Prompts), refused},
	} {
		bad := c.want == refused
		err := json.Unmarshal([]byte(c.in), c.into)
		got := ""
		switch v := c.into.(type) {
		case *Texts:
			got = fmt.Sprint(*v)
		case *Text:
			got = fmt.Sprint(*v)
		case *Prompts:
			got = fmt.Sprint(*v)
		}
		if bad != (err != nil) || !bad && got != c.want {
			t.Errorf("%T of %s: got %s, %v, want %q", c.into, c.in, got, err, c.want)
		}
	}
}
