package swarm

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAdaptersOfRecordsAreChecked(t *testing.T) {
	for name, list := range map[string][]Adapter{
		"no name":        {{"", "d"}},
		"long name":      {{strings.Repeat("x", 129), "d"}},
		"control":        {{"a\nb", "d"}},
		"no digest":      {{"a", ""}},
		"long digest":    {{"a", strings.Repeat("x", 129)}},
		"one name twice": {{"a", "d"}, {"a", "e"}},
		"too many":       make([]Adapter, 65),
	} {
		r := record()
		r.Adapters = list
		if err := r.Validate(); !errors.Is(err, ErrBadRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestViewAdapters(t *testing.T) {
	m := manifest()
	server := func(peer PeerID, start, end int, state State, adapters ...Adapter) Record {
		return Record{Peer: peer, Manifest: m, Span: Span{start, end}, State: state, Adapters: adapters}
	}
	half := m.Blocks / 2
	whole, other, part := Adapter{"poems", "whole"}, Adapter{"poems", "many"}, Adapter{"prose", "part"}
	v := NewView(m, time.Time{}, []Record{
		server("a", 0, half, Online, whole),
		server("b", half, m.Blocks, Online, whole, part),
		server("c", 0, half, Online, other),
		server("d", 0, half, Online, other),
		server("e", 0, half, Online, other),
		server("f", 0, m.Blocks, Draining, Adapter{"gone", "x"}),
	})
	// More servers hold the other "poems", but nobody holds its second half.
	if got := v.Adapters(); !reflect.DeepEqual(got, []Adapter{whole, part}) {
		t.Errorf("adapters %v", got)
	}
	for text, want := range map[string]Adapter{"poems": whole, "prose": part, "gone": {}, "poems@whole": {}} {
		if got, ok := v.Adapter(ParseAdapter(text)); got != want || ok != (want != Adapter{}) {
			t.Errorf("%s: %v %v", text, got, ok)
		}
	}
	if got, ok := v.Adapter(other); got != other || !ok {
		t.Errorf("the other poems: %v %v", got, ok)
	}
	if got := v.Holding(part); len(got.Servers) != 1 || got.Servers[0].Peer != "b" || len(v.Servers) != 6 {
		t.Errorf("holders of %v: %v", part, got.Servers)
	}
	if missing := v.Holding(part).Missing(); len(missing) != 1 || missing[0] != (Span{0, half}) {
		t.Errorf("blocks without %v: %v", part, missing)
	}
}

func TestParseAdapter(t *testing.T) {
	const hex = "0123456789ab"
	for text, want := range map[string]Adapter{
		"poems": {Name: "poems"}, "org/poems@" + hex: {"org/poems", hex}, "a@b@" + strings.ToUpper(hex): {"a@b", hex},
		"poems@v2": {Name: "poems@v2"}, "poems@" + hex[1:]: {Name: "poems@" + hex[1:]}, "@" + hex: {Name: "@" + hex}, "": {},
	} {
		got := ParseAdapter(text)
		if got != want {
			t.Errorf("%q: %+v", text, got)
		}
		if again := ParseAdapter(got.String()); again != got {
			t.Errorf("%q: written as %q and read as %+v", text, got, again)
		}
	}
}
