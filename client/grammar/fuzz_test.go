package grammar

import (
	"encoding/json"
	"errors"
	"testing"
)

// FuzzSchema: whatever a schema is, it is refused by a keyword or makes a grammar, and what the
// mask has is what may be accepted.
func FuzzSchema(f *testing.F) {
	for _, s := range peoplesSchemas {
		f.Add([]byte(s), uint64(1))
	}
	for _, s := range specs {
		if s.Schema != nil {
			f.Add([]byte(s.Schema), uint64(3))
		}
	}
	v := vocabulary()
	f.Fuzz(func(t *testing.T, raw []byte, path uint64) {
		follow(t, Spec{Schema: json.RawMessage(raw)}, v, path)
	})
}

// FuzzRegex is the same of expressions.
func FuzzRegex(f *testing.F) {
	for _, s := range []string{`(a|b)*abb`, `\d{1,3}(\.\d+)?`, `[^x]{2,4}日+`, `^a$|^\u00e9\s`, `(?i)é[[:alpha:]]`} {
		f.Add(s, uint64(5))
	}
	v := vocabulary()
	f.Fuzz(func(t *testing.T, source string, path uint64) {
		if source != "" {
			follow(t, Spec{Regex: source}, v, path)
		}
	})
}

// follow takes a few tokens of the mask, the choice of which is in path.
func follow(t *testing.T, spec Spec, v *Vocabulary, path uint64) {
	g, err := Compile(spec, v)
	if err != nil {
		return
	}
	m, err := g.Start()
	for range 8 {
		if err != nil {
			if !errors.Is(err, ErrTooCostly) {
				t.Fatal(err)
			}
			return
		}
		var mask []uint64
		if mask, err = m.Mask(); err != nil {
			continue
		}
		var may []int32
		for id := range pieces {
			if Admits(mask, int32(id)) {
				may = append(may, int32(id))
			}
		}
		if len(may) == 0 {
			if ends, _ := m.Ended(); !ends {
				t.Fatal("nothing may come, and it may not end")
			}
			return
		}
		id := may[path%uint64(len(may))]
		path = path*6364136223846793005 + 1442695040888963407
		err = m.Accept(id)
	}
}
