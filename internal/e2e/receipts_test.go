//go:build e2e

package e2e

import (
	"testing"
)

// Real servers sign what they computed: one receipt each, with the same roots in every
// session of the same text, and for the first ones what the client's journal has.
func TestReceipts(t *testing.T) {
	type answer struct {
		IDs      []int32
		Receipts []struct {
			Blocks, Root, Nonce string
			Rows                int
			Agrees              *bool
			Receipt             []byte
		}
	}
	r := refs(t, 12)[0]
	s := spawn(t, []string{"0:3", "3:6", "6:8"})
	var first, second answer
	for _, into := range []*answer{&first, &second} {
		lastJSON(t, run(t, "", "generate", toy, "--ids", idList(r.PromptIDs), "--max-new-tokens", "12", "--ignore-eos", "--json", "--receipts", "--initial-peers", s.peers()), into)
	}
	equal(t, "ids", first.IDs, r.IDs[:12])
	if len(first.Receipts) != 3 || len(second.Receipts) != 3 {
		t.Fatalf("receipts %+v and %+v", first.Receipts, second.Receipts)
	}
	for i, a := range first.Receipts {
		b := second.Receipts[i]
		if a.Root != b.Root || a.Nonce == b.Nonce || a.Rows != len(r.PromptIDs)+11 || len(a.Receipt) != 140+64 {
			t.Errorf("stage %d: %+v and %+v", i, a, b)
		}
		if last := i == 2; (a.Agrees == nil) != last || !last && !*a.Agrees {
			t.Errorf("stage %d: agrees %v", i, a.Agrees)
		}
	}
}
