package tokenizer

import (
	"errors"
	"strings"
	"testing"

	"whorl/internal/meter"
)

// A text of as many ids as the limit is encoded as without one, one of more is refused, and
// one of far more costs little.
func TestEncodeLimit(t *testing.T) {
	for _, name := range []string{"smollm2", "llama3", "llama2", "bloom"} {
		tok, _ := loadGolden(t, name)
		for _, text := range []string{"7777 hello  world\n\n<|im_end|> x", "é 한국어 \U0001F600", strings.Repeat("a", 300)} {
			for _, parse := range []bool{false, true} {
				o := EncodeOptions{ParseSpecial: parse}
				want, err := tok.Encode(text, o)
				if err != nil {
					t.Fatal(err)
				}
				o.Limit = len(want)
				if got, err := tok.Encode(text, o); err != nil || len(got) != len(want) {
					t.Errorf("%s, %.20q: %d ids with a limit of %d, %v", name, text, len(got), o.Limit, err)
				}
				o.Limit--
				if _, err := tok.Encode(text, o); !errors.Is(err, ErrTooLong) {
					t.Errorf("%s, %.20q: error %v with a limit of %d", name, text, err, o.Limit)
				}
			}
		}
		long := strings.Repeat("7 ", 1<<20)
		var err error
		if n := meter.Allocated(func() { _, err = tok.Encode(long, EncodeOptions{Limit: 1000}) }); !errors.Is(err, ErrTooLong) || n > 1<<20 {
			t.Errorf("%s: %d bytes allocated, %v", name, n, err)
		}
	}
	tok, err := chatter(t, "{{ messages[0].content }}")
	if err != nil {
		t.Fatal(err)
	}
	message := []Message{{Role: "user", Content: "12345"}}
	if ids, err := tok.EncodeChat(message, true, WithLimit(5)); err != nil || len(ids) != 5 {
		t.Errorf("a conversation that fits: %d ids, %v", len(ids), err)
	}
	if _, err := tok.EncodeChat(message, true, WithLimit(4)); !errors.Is(err, ErrTooLong) {
		t.Errorf("a conversation that does not: %v", err)
	}
}
