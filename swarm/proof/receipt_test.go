package proof

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"whorl/content"
	"whorl/internal/golden"
	"whorl/swarm"
)

// The test's peers are named by their public key, and sign with ed25519 as real ones do.
type signer struct{ key ed25519.PrivateKey }

func newSigner(b byte) signer {
	return signer{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))}
}

func (s signer) id() swarm.PeerID {
	return swarm.PeerID(hex.EncodeToString(s.key.Public().(ed25519.PublicKey)))
}

func (s signer) sign(r *Receipt) {
	r.Sig = ed25519.Sign(s.key, append([]byte(ReceiptDomain+"\x00"), r.Payload()...))
}

func verify(p swarm.PeerID, domain string, payload, sig []byte) error {
	key, err := hex.DecodeString(string(p))
	if err != nil || !ed25519.Verify(key, append([]byte(domain+"\x00"), payload...), sig) {
		return errors.New("bad signature")
	}
	return nil
}

// history are rows of one sequence, and the log that a stage makes of them.
func history(n int) ([]Row, *Log) {
	rows, log := make([]Row, n), new(Log)
	l := baseLeaf
	for i := range rows {
		rows[i] = Row{Position: uint32(i), Parent: uint32(i) - 1, In: HashRow([]float32{float32(i)}), Out: HashRow([]float32{float32(i), 1})}
		l.Row, l.Position, l.Parent, l.In, l.Out = uint32(i), rows[i].Position, rows[i].Parent, rows[i].In, rows[i].Out
		log.Append(l.Hash())
	}
	return rows, log
}

func receiptOf(log *Log, by signer) Receipt {
	r := Receipt{Mode: baseLeaf.Mode, Manifest: baseLeaf.Manifest, Span: baseLeaf.Span, Rows: uint32(log.Rows()), Nonce: filled(7), Root: log.Root()}
	by.sign(&r)
	return r
}

// TestReceiptGolden pins the bytes.
func TestReceiptGolden(t *testing.T) {
	text := ""
	for _, n := range []int{0, 1, 2, 63, 64, 65, 200} {
		_, log := history(n)
		r := receiptOf(log, newSigner(1))
		text += fmt.Sprintf("%d rows\nroot %s\nbytes %x\n", n, r.Root, r.Append(nil))
	}
	golden.Check(t, "testdata/receipts.txt", text)
}

// TestLogRoot compares roots with those of one tree of leaves, also after cuts.
func TestLogRoot(t *testing.T) {
	leaf := func(i int) content.Hash { return content.LeafOf(fmt.Append(nil, i)) }
	tree := func(leaves []content.Hash) content.Hash {
		var r content.Roots
		for _, h := range leaves {
			r.Add(content.LeafOf(h[:]))
		}
		return r.Root()
	}
	var log Log
	var all []content.Hash
	for i, to := range []int{0, 1, 64, 63, 130, 128, 129, 300, 64, 200, 0, 70} {
		log.Cut(to)
		all = all[:min(to, len(all))]
		for len(all) < to {
			h := leaf(1000*i + len(all))
			all = append(all, h)
			log.Append(h)
		}
		if log.Rows() != to || log.Root() != tree(all) {
			t.Errorf("%d rows: root %s of %d, want %s", to, log.Root(), log.Rows(), tree(all))
		}
		if got := int64(len(log.pages)) * int64(len(logPage{}.leaves)+1) * 32; got != LogBytes(int64(to)) {
			t.Errorf("%d rows take %d bytes, announced are %d", to, got, LogBytes(int64(to)))
		}
	}
}

func TestCheck(t *testing.T) {
	me, other := newSigner(1), newSigner(2)
	rows, log := history(100)
	r := receiptOf(log, me)
	if err := errors.Join(r.Check(me.id(), &r, verify), r.Covers(rows)); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(other.id(), &r, verify); err == nil {
		t.Error("a receipt of one peer is taken for another's")
	}
	for name, change := range map[string]func(*Receipt){
		"mode": func(r *Receipt) { r.Mode = filled(9) }, "manifest": func(r *Receipt) { r.Manifest = filled(9) },
		"start": func(r *Receipt) { r.Span.Start++ }, "end": func(r *Receipt) { r.Span.End++ }, "nonce": func(r *Receipt) { r.Nonce = filled(9) },
	} {
		changed := r
		change(&changed)
		me.sign(&changed)
		if err := changed.Check(me.id(), &r, verify); !errors.Is(err, ErrOther) {
			t.Errorf("another %s: %v", name, err)
		}
		if err := r.Check(me.id(), &changed, verify); !errors.Is(err, ErrOther) {
			t.Errorf("another %s is wanted: %v", name, err)
		}
		if name != "nonce" {
			if err := changed.Covers(rows); !errors.Is(err, ErrRows) {
				t.Errorf("another %s covers the rows: %v", name, err)
			}
			if err := changed.Agrees(&r); !errors.Is(err, ErrOther) {
				t.Errorf("another %s agrees: %v", name, err)
			}
		}
	}
	for name, change := range map[string]func(*Receipt){"rows": func(r *Receipt) { r.Rows-- }, "root": func(r *Receipt) { r.Root[0] ^= 1 }} {
		changed := r
		change(&changed)
		if err := changed.Check(me.id(), &r, verify); err == nil {
			t.Errorf("%s are not signed", name)
		}
	}
}

// One bit of one row, its place, or what it continues: each is seen.
func TestCovers(t *testing.T) {
	rows, log := history(100)
	r := receiptOf(log, newSigner(1))
	for name, change := range map[string]func([]Row){
		"input": func(r []Row) { r[40].In[3] ^= 1 }, "output": func(r []Row) { r[99].Out[31] ^= 128 },
		"position": func(r []Row) { r[0].Position++ }, "parent": func(r []Row) { r[64].Parent-- }, "order": func(r []Row) { r[3], r[4] = r[4], r[3] },
	} {
		changed := append([]Row(nil), rows...)
		change(changed)
		if err := r.Covers(changed); !errors.Is(err, ErrRows) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if err := r.Covers(rows[:99]); !errors.Is(err, ErrCount) {
		t.Errorf("99 of 100 rows: %v", err)
	}
	again := receiptOf(log, newSigner(2))
	again.Nonce = filled(8)
	if err := again.Agrees(&r); err != nil {
		t.Errorf("two servers with the same rows: %v", err)
	}
	log.Cut(99)
	if short := receiptOf(log, newSigner(2)); !errors.Is(short.Agrees(&r), ErrCount) {
		t.Errorf("one row less agrees: %v", short.Agrees(&r))
	}
	again.Root[0] ^= 1
	if err := again.Agrees(&r); !errors.Is(err, ErrRows) {
		t.Errorf("another root agrees: %v", err)
	}
}

func TestParseReceiptRefuses(t *testing.T) {
	_, log := history(3)
	good := signed(log)
	for name, b := range map[string][]byte{
		"nothing": nil, "no signature": good[:payloadSize], "too long": append(bytes.Clone(good), make([]byte, maxSig)...),
		"no blocks":       replaced(good, 64, 9),
		"negative blocks": replaced(good, 71, 255),
	} {
		if _, err := ParseReceipt(b); !errors.Is(err, ErrReceipt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func signed(log *Log) []byte {
	r := receiptOf(log, newSigner(1))
	return r.Append(nil)
}

func replaced(b []byte, at int, v byte) []byte {
	b = bytes.Clone(b)
	b[at] = v
	return b
}

// FuzzParseReceipt: whatever is taken is written again as it came.
func FuzzParseReceipt(f *testing.F) {
	_, log := history(3)
	r := receiptOf(log, newSigner(1))
	f.Add(r.Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseReceipt(b)
		if err != nil {
			if !errors.Is(err, ErrReceipt) {
				t.Errorf("%v", err)
			}
			return
		}
		if !bytes.Equal(r.Append(nil), b) {
			t.Errorf("%x became %x", b, r.Append(nil))
		}
		if r.Covers(nil) == nil && r.Rows != 0 {
			t.Error("no rows are covered")
		}
	})
}

// BenchmarkRoot is what a receipt costs beside its signature.
func BenchmarkRoot(b *testing.B) {
	for _, n := range []int{100, 8191} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, log := history(n)
			for b.Loop() {
				log.Root()
			}
		})
	}
}
