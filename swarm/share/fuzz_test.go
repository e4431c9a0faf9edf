package share

import (
	"context"
	"io"
	"testing"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// FuzzServe feeds a holder whatever a stranger sends. It must answer with frames and end.
func FuzzServe(f *testing.F) {
	data := random(2*wire.PieceSize+5, 1)
	s := new(Store)
	o := Object{content.Tree(data), int64(len(data))}
	if err := s.Add(o, HashPieces(data), memory(data)); err != nil {
		f.Fatal(err)
	}
	first := wire.AppendJSON(nil, wire.TypeFetch, wire.Fetch{Version: wire.Version, Swarm: "test", Root: o.Root})
	f.Add(first)
	f.Add(wire.AppendNumber(append([]byte(nil), first...), wire.TypePiece, 1))
	f.Add(wire.AppendNumber(append([]byte(nil), first...), wire.TypePiece, 1<<18))
	f.Add(wire.AppendNumber(append([]byte(nil), first...), wire.TypeHashes, 0))
	f.Add(wire.AppendNumber(append([]byte(nil), first...), wire.TypeHashes, 1<<18))
	f.Add(wire.AppendFrame(append([]byte(nil), first...), wire.TypeHave))
	f.Fuzz(func(t *testing.T, sent []byte) {
		srv, err := NewServer(ServerConfig{Self: "a", Swarm: "test", Store: s})
		if err != nil {
			t.Fatal(err)
		}
		near, far := wire.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer far.Reset()
			srv.Serve(t.Context(), "b", far)
		}()
		go func() {
			near.Write(sent)
			near.Close()
		}()
		r := wire.NewReader(near)
		for {
			typ, _, err := r.Next()
			if err != nil {
				break
			}
			if typ != wire.TypeHave && typ != wire.TypeHashes && typ != wire.TypePiece && typ != wire.TypeFail {
				t.Errorf("it answers with type %d", typ)
			}
		}
		near.Reset()
		<-done
		if used := srv.streams.Used() + srv.sending.Used(); used != 0 {
			t.Errorf("%d of its budgets are still held", used)
		}
	})
}

// FuzzAnswers feeds an asker whatever a holder answers. Nothing wrong may reach the sink.
func FuzzAnswers(f *testing.F) {
	data := random(70000, 2)
	o := Object{content.Tree(data), int64(len(data))}
	have := wire.AppendHave(nil, wire.Have{Size: o.Size})
	f.Add(have)
	f.Add(append(wire.AppendPieceHeader(append([]byte(nil), have...), 0, len(data)), data...))
	f.Add(append(wire.AppendPieceHeader(append([]byte(nil), have...), 0, 3), 1, 2, 3))
	f.Add(wire.AppendHashes(nil, 0, []content.Hash{o.Root}))
	f.Add(wire.AppendJSON(nil, wire.TypeFail, wire.Fail{Code: swarm.CodeInternal}))
	f.Fuzz(func(t *testing.T, answers []byte) {
		cfg := DefaultClient()
		cfg.Self, cfg.Swarm, cfg.Patience = "me", "test", time.Millisecond
		cfg.Sources = func() []swarm.PeerID { return []swarm.PeerID{"a"} }
		cfg.Dial = func(context.Context, swarm.PeerID, string) (wire.Stream, error) {
			near, far := wire.Pipe()
			go func() {
				go io.Copy(io.Discard, far)
				far.Write(answers)
				far.Close()
			}()
			return near, nil
		}
		c, err := NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Fetch(t.Context(), o, []content.Hash{o.Root}, []int{0}, func(_ int, got []byte) error {
			if string(got) != string(data) {
				t.Error("wrong bytes are handed on")
			}
			return nil
		})
		if got, serr := c.Small(t.Context(), o.Root); serr == nil && string(got) != string(data) {
			t.Error("wrong bytes of a small object")
		}
		_ = err
	})
}

// FuzzBundle reads whatever a peer sends for a bundle.
func FuzzBundle(f *testing.F) {
	b, _ := NewBundle([]File{{"a", Object{content.LeafOf(nil), 5}}})
	f.Add(b.Encode())
	f.Add([]byte(`{"bundle":1,"files":[{"name":"..","root":"","size":1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := DecodeBundle(raw)
		if err != nil {
			return
		}
		if string(b.Encode()) != string(raw) {
			t.Error("two spellings of one bundle")
		}
		for _, file := range b.Files {
			if !fileName(file.Name) || file.Pieces() > wire.MaxPieces {
				t.Errorf("%+v", file)
			}
		}
	})
}
