package proof

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"whorl/content"
	"whorl/internal/golden"
	"whorl/swarm"
)

const width = 8 // of rows

func canary() Canary {
	return Canary{Manifest: filled(2), Span: swarm.Span{Start: 3, End: 7}, Auditor: "auditor", Server: "server", Made: 1_800_000_000_000, Salt: filled(5)}
}

// computes is what an honest server gives: some function of all rows so far.
func computes(c *Canary, rows int) (out []content.Hash) {
	var all []float32
	for i := range rows {
		all = c.Fill(all, i, i+1, width)
		out = append(out, HashRow(all))
	}
	return out
}

// signs is what a server of a test has for a key.
func signs(p swarm.PeerID, domain string, payload []byte) []byte {
	h := content.Sum(fmt.Appendf(nil, "%s|%s|%x", p, domain, payload))
	return h[:]
}

func checks(p swarm.PeerID, domain string, payload, sig []byte) error {
	if !bytes.Equal(sig, signs(p, domain, payload)) {
		return errors.New("bad signature")
	}
	return nil
}

// receipt is what a server signs that gave these rows of a canary.
func receipt(c *Canary, gave []content.Hash) *Receipt {
	r := c.want()
	var log Log
	for _, leaf := range c.leaves(gave, width) {
		log.Append(leaf)
	}
	r.Rows, r.Root = uint32(len(gave)), log.Root()
	r.Sig = signs(c.Server, ReceiptDomain, r.Payload())
	return &r
}

// A row that a server signed wrong is proven to whoever can compute the rows up to it, wherever it
// is and however many there are; it fits a kilobyte.
func TestEvidence(t *testing.T) {
	c := canary()
	right := computes(&c, MaxCanaryRows)
	for _, n := range []int{1, 2, 3, 63, 64, 65, 100, 127, 128, 255, 256} {
		for row := range n {
			if n > 3 && row > 3 && row < n-3 && row%29 != 0 {
				continue
			}
			gave := slices.Clone(right[:n])
			for i := row; i < n; i += 3 {
				gave[i][0] ^= 1
			}
			a, err := c.Accuse(gave, row, receipt(&c, gave), width, checks)
			if err != nil {
				t.Fatalf("row %d of %d: %v", row, n, err)
			}
			raw := a.Append(nil)
			back, err := ParseAccusation(raw)
			if err != nil || len(raw) > MaxAccusation || back.ID() != a.ID() {
				t.Fatalf("row %d of %d: %d bytes, %v", row, n, len(raw), err)
			}
			if err := back.Check(checks); err != nil {
				t.Errorf("row %d of %d: %v", row, n, err)
			}
			if err := back.Proves(right[:row+1], width); err != nil {
				t.Errorf("row %d of %d: %v", row, n, err)
			}
		}
	}
}

// Nothing that an honest server signs is evidence against it, whatever an accuser makes of it.
func TestEvidenceAgainstTheHonest(t *testing.T) {
	c := canary()
	right := computes(&c, 8)
	honest := receipt(&c, right)
	claim := func(change func(*Accusation)) Accusation {
		a, err := c.Accuse(right, 3, honest, width, checks)
		if err != nil {
			t.Fatal(err)
		}
		change(&a)
		return a
	}
	fed := c // the same rows but one, and what an honest server makes of them
	fed.Salt = filled(9)
	others := receipt(&c, computes(&fed, 8))
	for name, k := range map[string]struct {
		a     Accusation
		check string // of Check; "" passes
		want  error  // of Proves
	}{
		"that it gave what is right":              {claim(func(*Accusation) {}), "", ErrRight},
		"that it gave something else":             {claim(func(a *Accusation) { a.Out[1] ^= 1 }), "", ErrRows},
		"of another row":                          {claim(func(a *Accusation) { a.Row, a.Out, a.Rest = 4, right[3], []content.Hash{{}, {}} }), "", ErrRows},
		"behind which others come":                {claim(func(a *Accusation) { a.Out[1] ^= 1; a.Rest[0][0] ^= 1 }), "", ErrRows},
		"with another root":                       {claim(func(a *Accusation) { a.Root[0] ^= 1 }), "bad signature", ErrRight},
		"by another salt":                         {claim(func(a *Accusation) { a.Salt[0] ^= 1 }), "bad signature", ErrRight},
		"at another time":                         {claim(func(a *Accusation) { a.Made++ }), "bad signature", ErrRight},
		"by another auditor":                      {claim(func(a *Accusation) { a.Auditor = "x" }), "bad signature", ErrRight},
		"for another server":                      {claim(func(a *Accusation) { a.Server = "x" }), "bad signature", ErrRight},
		"of another span":                         {claim(func(a *Accusation) { a.Span.End++ }), "bad signature", ErrRight},
		"of another model":                        {claim(func(a *Accusation) { a.Manifest[0] ^= 1 }), "bad signature", ErrRight},
		"with a root over what it made of others": {claim(func(a *Accusation) { a.Root, a.Sig = others.Root, others.Sig; a.Out = computes(&fed, 4)[3] }), "", ErrRows},
	} {
		err := k.a.Check(checks)
		if got := fmt.Sprint(err); (k.check == "") != (err == nil) || !strings.Contains(got, k.check) {
			t.Errorf("%s: checked: %v, want %s", name, err, k.check)
		}
		if k.check != "" {
			continue
		}
		if err := k.a.Proves(right[:k.a.Row+1], width); !errors.Is(err, k.want) {
			t.Errorf("%s: %v, want %v", name, err, k.want)
		}
	}
}

// Whoever signs other rows than it gave, or signs nothing, leaves no evidence.
func TestNoEvidence(t *testing.T) {
	c := canary()
	gave := computes(&c, 5)
	honest := receipt(&c, gave)
	gave[2][0] ^= 1
	if a, err := c.Accuse(gave, 2, honest, width, checks); !errors.Is(err, ErrRows) || a.Signed() || a.whole() != nil {
		t.Errorf("%+v, %v", a, err)
	}
	other := c
	other.Salt[0]++
	if a, err := c.Accuse(gave, 2, receipt(&other, gave), width, checks); !errors.Is(err, ErrOther) || a.Signed() {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := c.Accuse(gave[:4], 2, honest, width, checks); !errors.Is(err, ErrCount) {
		t.Errorf("%v", err)
	}
}

// Rows are even, differ from one another, and do not depend on where one begins.
func TestCanaryRows(t *testing.T) {
	c := canary()
	all := c.Fill(nil, 0, 64, 100)
	if part := c.Fill(nil, 7, 9, 100); !slices.Equal(part, all[700:900]) {
		t.Error("rows depend on where they begin")
	}
	var sum, squares float64
	for _, v := range all {
		if v < -1 || v >= 1 {
			t.Fatalf("a value of %v", v)
		}
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	if mean, of := sum/6400, squares/6400; mean < -0.03 || mean > 0.03 || of < 0.31 || of > 0.36 {
		t.Errorf("mean %v, mean square %v", mean, of)
	}
	if slices.Equal(all[:100], all[100:200]) {
		t.Error("two rows are the same")
	}
}

// TestCanaryGolden pins the bytes: a change of these texts is another protocol.
func TestCanaryGolden(t *testing.T) {
	c := canary()
	gave := computes(&c, 5)
	gave[1][0] ^= 1
	a, err := c.Accuse(gave, 1, receipt(&c, gave), width, checks)
	if err != nil {
		t.Fatal(err)
	}
	nonce, mode := c.Nonce(), CanaryMode()
	text := fmt.Sprintf("nonce %s\nmode %s\nrow 0 %v\nrow 255 %v\n", nonce, mode.Hash(), c.Fill(nil, 0, 1, width), c.Fill(nil, 255, 256, width))
	text += fmt.Sprintf("accusation %x\n", a.Append(nil))
	golden.Check(t, "testdata/canary.txt", text)
}

// Whatever bytes come, reading them ends, and what is read is whole and written the same.
func FuzzParseAccusation(f *testing.F) {
	c := canary()
	gave := computes(&c, 9)
	gave[3][0] ^= 1
	a, err := c.Accuse(gave, 3, receipt(&c, gave), width, checks)
	if err != nil {
		f.Fatal(err)
	}
	word := c.Word(3, gave[3])
	f.Add(a.Append(nil))
	f.Add(word.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseAccusation(b)
		if err != nil {
			return
		}
		if back := a.Append(nil); !bytes.Equal(back, b) {
			t.Fatalf("%x is read as %x", b, back)
		}
		if err := a.whole(); err != nil {
			t.Fatal(err)
		}
		if a.Check(checks) == nil && a.Signed() && a.Proves(computes(&a.Canary, int(a.Row)+1), width) == nil && !bytes.Equal(a.Sig, signs(a.Server, ReceiptDomain, func() []byte {
			r := a.want()
			r.Rows, r.Root = a.Rows, a.Root
			return r.Payload()
		}())) {
			t.Fatal("proven by what the server did not sign")
		}
	})
}
