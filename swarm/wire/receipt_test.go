package wire

import (
	"bytes"
	"errors"
	"testing"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/proof"
)

func someReceipt(sig int) Receipt {
	return Receipt{Epoch: 7, Receipt: proof.Receipt{
		Mode: content.Sum([]byte("mode")), Manifest: content.Sum([]byte("manifest")), Span: swarm.Span{Start: 2, End: 5}, Rows: 9,
		Nonce: content.Sum([]byte("nonce")), Root: content.Sum([]byte("root")), Sig: bytes.Repeat([]byte{3}, sig),
	}}
}

// The longest receipt fits its frame, and comes back as it was; nothing else does.
func TestReceipt(t *testing.T) {
	for _, sig := range []int{1, 64, 128} {
		r := someReceipt(sig)
		ty, p, err := NewReader(bytes.NewReader(r.AppendFrame(nil))).Next()
		if err != nil || ty != TypeReceipt {
			t.Fatalf("signature of %d bytes: type %d, %v", sig, ty, err)
		}
		back, err := ParseReceipt(p)
		if err != nil || !bytes.Equal(back.Append(nil), r.Append(nil)) || back.Epoch != 7 || back.Rows != 9 {
			t.Errorf("signature of %d bytes: %+v, %v", sig, back, err)
		}
	}
	for _, sig := range []int{0, 129} {
		r := someReceipt(sig)
		if _, err := ParseReceipt(r.Append(nil)); !errors.Is(err, ErrFrame) {
			t.Errorf("signature of %d bytes: %v", sig, err)
		}
	}
	if _, err := ParseReceipt([]byte{1, 2, 3}); !errors.Is(err, ErrFrame) {
		t.Errorf("three bytes: %v", err)
	}
	long := someReceipt(129)
	if _, _, err := NewReader(bytes.NewReader(long.AppendFrame(nil))).Next(); !errors.Is(err, ErrFrame) {
		t.Errorf("a frame that is too long: %v", err)
	}
}

func FuzzParseReceipt(f *testing.F) {
	r := someReceipt(64)
	f.Add(r.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseReceipt(b)
		if err == nil && !bytes.Equal(r.Append(nil), b) || err != nil && !errors.Is(err, ErrFrame) {
			t.Errorf("%x: %+v, %v", b, r, err)
		}
	})
}
