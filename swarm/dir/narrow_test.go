package dir

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	"github.com/libp2p/go-libp2p/core/network"
)

// bytesStream is a stream that gives what it was told.
type bytesStream struct {
	network.Stream
	io.Reader
	reset bool
}

func (s *bytesStream) Read(p []byte) (int, error) { return s.Reader.Read(p) }
func (s *bytesStream) Reset() error               { s.reset = true; return nil }

// Messages up to the limit pass whole, one that is announced to be larger ends the stream
// before the library learns how large.
func TestNarrow(t *testing.T) {
	message := func(n int) []byte { return append(binary.AppendUvarint(nil, uint64(n)), make([]byte, n)...) }
	small := bytes.Join([][]byte{message(0), message(1), message(300), message(maxQuestion), message(5)}, nil)
	for _, piece := range []int{1, 7, 1 << 20} {
		s := &bytesStream{Reader: io.MultiReader(bytes.NewReader(small), bytes.NewReader(message(maxQuestion+1)))}
		got, err := io.ReadAll(&pieces{&narrow{Stream: s, most: maxQuestion}, piece})
		if err != errLarge || !s.reset || !bytes.HasPrefix(append(small, 0x81, 0x80), got) {
			t.Errorf("pieces of %d: %d of %d bytes, %v", piece, len(got), len(small), err)
		}
	}
}

// pieces reads some bytes at a time.
type pieces struct {
	r io.Reader
	n int
}

func (s *pieces) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }

func FuzzNarrow(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 0, 0x80, 0x80, 4}, 2)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		s := &narrow{Stream: &bytesStream{Reader: bytes.NewReader(b)}, most: maxQuestion}
		got, err := io.ReadAll(&pieces{s, max(1, piece)})
		if !bytes.HasPrefix(b, got) || err == nil && len(got) != len(b) || s.left > maxQuestion || s.size > maxQuestion && err == nil {
			t.Errorf("%d of %d bytes, %v", len(got), len(b), err)
		}
	})
}

func TestProviderStore(t *testing.T) {
	ctx, p := context.Background(), newProviders()
	put := func(key, peer any) {
		if err := p.Put(ctx, ds.NewKey(fmt.Sprintf("/providers/k%v/p%v", key, peer)), []byte("t")); err != nil {
			t.Fatal(err)
		}
	}
	count := func(prefix string) int {
		res, err := p.Query(ctx, query.Query{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		all, _ := res.Rest()
		return len(all)
	}
	put(0, 0)
	put(0, 1)
	put(0, 1) // again is once
	if n := count("/providers/k0"); n != 2 {
		t.Errorf("%d providers, want 2", n)
	}
	for i := range 100 { // a peer that provides everything keeps some
		put(i+1, 1)
	}
	if n := count("/providers"); n != 1+maxProvidersPerPeer {
		t.Errorf("%d records, want those of one peer and one more", n)
	}
	for i := range 2 * maxProviders {
		put(i%1000, 2+i)
	}
	if n := count("/providers"); n != maxProviders || p.all.Len() != n || len(p.peers) != n {
		t.Errorf("%d records, %d in order, of %d peers", n, p.all.Len(), len(p.peers))
	}
	res, _ := p.Query(ctx, query.Query{Prefix: "/providers"})
	all, _ := res.Rest()
	for _, e := range all {
		if ok, _ := p.Has(ctx, ds.RawKey(e.Key)); !ok {
			t.Fatalf("%s is listed and is not there", e.Key)
		}
		p.Delete(ctx, ds.RawKey(e.Key))
	}
	if p.all.Len() != 0 || len(p.peers) != 0 || len(p.byKey) != 0 {
		t.Errorf("left: %d, %v, %v", p.all.Len(), p.peers, p.byKey)
	}
}
