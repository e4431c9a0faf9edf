package wire

import (
	"bytes"
	"testing"

	"whorl/content"
)

func TestShareFrames(t *testing.T) {
	body := func(frame []byte) []byte { return frame[HeadSize:] }
	for _, h := range []Have{{Size: 0}, {Size: 5}, {Size: 3 * PieceSize}, {Size: 9*PieceSize + 1, Bits: []byte{0x81, 0x02}}} {
		got, err := ParseHave(body(AppendHave(nil, h)))
		if err != nil || got.Size != h.Size || !bytes.Equal(got.Bits, h.Bits) {
			t.Errorf("%+v became %+v (%v)", h, got, err)
		}
	}
	h := Have{Size: 10 * PieceSize, Bits: []byte{0x81, 0x02}}
	for i, want := range []bool{true, false, false, false, false, false, false, true, false, true, false} {
		if h.Has(i) != want {
			t.Errorf("piece %d: %v", i, !want)
		}
	}
	for _, bad := range [][]byte{nil, make([]byte, 7), {0, 0, 0, 0, 0, 0, 0, 1}, append([]byte{5, 0, 0, 0, 0, 0, 0, 0}, 1, 1)} {
		if _, err := ParseHave(bad); err == nil {
			t.Errorf("%x is taken", bad)
		}
	}
	hashes := []content.Hash{content.LeafOf(nil), content.LeafOf([]byte{1})}
	page, got, err := ParseHashes(body(AppendHashes(nil, 3, hashes)))
	if err != nil || page != 3 || len(got) != 2 || got[1] != hashes[1] {
		t.Errorf("page %d of %v (%v)", page, got, err)
	}
	if n, rest, err := ParseNumbered(body(AppendNumber(nil, TypePiece, 7))); err != nil || n != 7 || len(rest) != 0 {
		t.Errorf("%d, %x, %v", n, rest, err)
	}
	for _, bad := range [][]byte{nil, {1, 2, 3}, {0, 0, 8, 0}} {
		if _, _, err := ParseNumbered(bad); err == nil {
			t.Errorf("%x is taken", bad)
		}
	}
	if _, _, err := ParseHashes([]byte{0, 0, 0, 0, 1}); err == nil {
		t.Error("a part of a hash is taken")
	}
}

// FuzzShare reads payloads of the share protocol.
func FuzzShare(f *testing.F) {
	f.Add(AppendHave(nil, Have{Size: 9 * PieceSize, Bits: []byte{1, 1}})[HeadSize:])
	f.Add(AppendHashes(nil, 1, []content.Hash{{1}})[HeadSize:])
	f.Fuzz(func(t *testing.T, p []byte) {
		if h, err := ParseHave(p); err == nil {
			if h.Size < 0 || Pieces(h.Size) > MaxPieces || !bytes.Equal(AppendHave(nil, h)[HeadSize:], p) {
				t.Errorf("%+v", h)
			}
			h.Has(Pieces(h.Size))
		}
		if page, hashes, err := ParseHashes(p); err == nil && !bytes.Equal(AppendHashes(nil, page, hashes)[HeadSize:], p) {
			t.Errorf("page %d", page)
		}
	})
}
