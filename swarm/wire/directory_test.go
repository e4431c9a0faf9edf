package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// What nodes say in an exchange comes across whole, and nothing else is read.
func TestExchangeFrames(t *testing.T) {
	for _, o := range []*Offer{
		{All: []Offered{}},
		{Now: 1 << 40, Log: 1<<64 - 1, At: 7, More: true, Beat: true, Static: true, All: []Offered{{Tag{1, 2}, 3}, {Tag{1 << 63, 0}, 1<<32 - 1}}},
	} {
		b := o.Append(nil)
		if got, err := ParseOffer(b); err != nil || !reflect.DeepEqual(got, o) || len(b) != offerHead+len(o.All)*offeredSize {
			t.Errorf("%+v is read as %+v: %v", o, got, err)
		}
		for _, bad := range [][]byte{b[:len(b)-1], append(bytes.Clone(b), 0), b[:3], nil} {
			if got, err := ParseOffer(bad); !errors.Is(err, ErrFrame) {
				t.Errorf("%d bytes are read as %+v", len(bad), got)
			}
		}
	}
	if _, err := ParseOffer(make([]byte, offerHead+(MaxOffered+1)*offeredSize)); !errors.Is(err, ErrFrame) {
		t.Errorf("an offer of too many: %v", err)
	}
	c := &Choice{Own: Part{[]byte("beat"), []byte("static")}, Beats: NewBits(11), Statics: NewBits(11)}
	c.Beats.Set(0)
	c.Beats.Set(10)
	c.Statics.Set(9)
	b := c.Append(nil)
	got, err := ParseChoice(b, 11)
	if err != nil || !reflect.DeepEqual(got, c) || !got.Beats.Has(10) || got.Beats.Has(9) || !got.Statics.Has(9) || got.Beats.Has(99) {
		t.Errorf("%+v %v", got, err)
	}
	for n := range 30 {
		if _, err := ParseChoice(b, n); (err == nil) != (n > 8 && n <= 16) {
			t.Errorf("a choice among 11 is read as one among %d: %v", n, err)
		}
	}
	parts := []Part{{[]byte("a"), nil}, {[]byte("b"), []byte("static")}, {make([]byte, MaxBeat), make([]byte, MaxStatic)}}
	var frame []byte
	for _, p := range parts {
		frame = p.Append(frame)
	}
	all, err := ParseParts(frame)
	if err != nil || len(all) != 3 || string(all[1].Static) != "static" || len(all[2].Static) != MaxStatic || len(all[0].Static) != 0 {
		t.Errorf("%d parts: %v", len(all), err)
	}
	if parts[2].Size() > MaxAnswer || MaxParts > MaxAnswer {
		t.Error("the largest part does not fit a frame")
	}
	for what, b := range map[string][]byte{
		"cut": frame[:len(frame)-1], "a long heartbeat": Part{Beat: make([]byte, MaxBeat+1)}.Append(nil),
		"a long static part": Part{Static: make([]byte, MaxStatic+1)}.Append(nil), "the head of one": frame[:4],
		"more than there is": {1, 0, 255, 255, 255, 255, 1},
	} {
		if all, err := ParseParts(b); !errors.Is(err, ErrFrame) || all != nil {
			t.Errorf("%s: %d parts, %v", what, len(all), err)
		}
	}
	if _, err := ParsePart(frame); !errors.Is(err, ErrFrame) {
		t.Errorf("three parts are one: %v", err)
	}
}

func FuzzExchangeFrames(f *testing.F) {
	f.Add((&Offer{Now: 1, All: []Offered{{Tag{1, 2}, 3}}}).Append(nil), 1)
	f.Add((&Choice{Own: Part{[]byte("b"), []byte("s")}, Beats: NewBits(3), Statics: NewBits(3)}).Append(nil), 3)
	f.Add(Part{[]byte("b"), nil}.Append(Part{nil, []byte("s")}.Append(nil)), 0)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if o, err := ParseOffer(b); err == nil {
			again := o.Append(nil)
			if again[offerHead-1] = b[offerHead-1]; !bytes.Equal(again, b) { // unknown flags pass by
				t.Errorf("%x is read as %+v", b, o)
			}
		}
		if n = min(max(n, 0), MaxOffered); true {
			if c, err := ParseChoice(b, n); err == nil && !bytes.Equal(c.Append(nil), b) {
				t.Errorf("%x is read as %+v", b, c)
			}
		}
		if all, err := ParseParts(b); err == nil {
			var again []byte
			for _, p := range all {
				again = p.Append(again)
			}
			if !bytes.Equal(again, b) {
				t.Errorf("%x is read as %d parts", b, len(all))
			}
		}
	})
}
