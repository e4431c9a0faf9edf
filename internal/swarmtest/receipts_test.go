package swarmtest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/client/sample"
	"whorl/server"
	"whorl/swarm"
	"whorl/swarm/proof"
	"whorl/swarm/wire"
)

// proven opens a session that asks for receipts, and runs a turn in it.
func proven(t *testing.T, e *client.Engine, o client.SessionOptions, r client.Request, each func(*client.Session, int)) *client.Session {
	t.Helper()
	o.Receipts = true
	s, err := e.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r.TopLogprobs = -1
	have := 0
	if _, err := s.Generate(t.Context(), r, func(d client.Delta) error {
		if have += len(d.IDs); each != nil {
			each(s, have)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// receiptsOf asks for the receipts of a session; each stage owes one.
func receiptsOf(t *testing.T, s *client.Session) []client.StageReceipt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	list, err := s.Receipts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var present []client.StageReceipt
	for _, hop := range s.Route() {
		at := slices.IndexFunc(list, func(r client.StageReceipt) bool { return r.Hop == hop })
		if at < 0 {
			t.Fatalf("no receipt of %v", hop)
		}
		present = append(present, list[at])
	}
	return present
}

// covered checks receipts against the journal, which has all rows but the last stage's.
func covered(t *testing.T, s *client.Session, list []client.StageReceipt) {
	t.Helper()
	for i, r := range list {
		if known, err := s.Covers(&r); err != nil || known != (i < len(list)-1) {
			t.Errorf("stage %d, %d rows: known %v, %v", i, r.Rows, known, err)
		}
	}
}

// Every stage signs what the client's journal has, and two chains sign the same roots: after
// turns, after a cut, after a fail-over in the middle of an answer, and in a beam search.
func TestReceiptsThroughTheSwarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := chain(t, 2, func(c *server.Config) { c.StepRows = 32 }, "0:2", "2:4", "4:6")
		req := client.Request{Prompt: prompt(100, 1), MaxNewTokens: 80}
		plain := proven(t, e, client.SessionOptions{MaxLength: 400}, req, nil)
		first := receiptsOf(t, plain)
		covered(t, plain, first)

		killed := false
		lossy := proven(t, e, client.SessionOptions{MaxLength: 400, PrefillChunk: 7}, req, func(s *client.Session, have int) {
			if have >= 30 && !killed {
				killed = true
				w.Server(s.Route()[1].Peer).Close()
			}
		})
		second := receiptsOf(t, lossy)
		covered(t, lossy, second)
		for i := range first {
			if err := second[i].Agrees(&first[i].Receipt.Receipt); err != nil || first[i].Rows != 179 {
				t.Errorf("stage %d: receipts of one text differ: %v (%d rows)", i, err, first[i].Rows)
			}
			if second[i].Nonce == first[i].Nonce {
				t.Error("two sessions have one nonce")
			}
		}

		if err := lossy.Truncate(50); err != nil {
			t.Fatal(err)
		}
		if _, err := lossy.Generate(t.Context(), client.Request{Prompt: prompt(9, 5), MaxNewTokens: 5, TopLogprobs: -1}, nil); err != nil {
			t.Fatal(err)
		}
		third := receiptsOf(t, lossy)
		covered(t, lossy, third)
		if third[0].Rows != 63 {
			t.Errorf("receipts over %d rows, want 63", third[0].Rows)
		}
	})
}

// A receipt of a search: the leaves name what each row continues.
func TestReceiptsOfASearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := chain(t, 1, nil, "0:3", "3:6")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, err := e.Open(ctx, client.SessionOptions{MaxLength: 100, Beams: 4, Receipts: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := sample.BeamParams{Beams: 4, Return: 1, LengthPenalty: 1}
		if _, err := s.Generate(ctx, client.Request{Prompt: prompt(10, 1), MaxNewTokens: 9, TopLogprobs: -1, Beams: b}, nil); err != nil {
			t.Fatal(err)
		}
		// The search gave its sequences up; the next turn has one again.
		if _, err := s.Generate(ctx, client.Request{MaxNewTokens: 3, TopLogprobs: -1}, nil); err != nil {
			t.Fatal(err)
		}
		covered(t, s, receiptsOf(t, s))
	})
}

// A server that signs other rows than it passed on is found by the journal; one whose
// receipts are not signed by it, or are about something else, is left like any that sends
// what cannot be.
func TestFalseReceipts(t *testing.T) {
	forge := func(change func(*wire.Receipt), by swarm.PeerID) Lie {
		return func(proto string, ty wire.Type, frame []byte) []byte {
			if ty != wire.TypeReceipt {
				return frame
			}
			r, err := wire.ParseReceipt(frame[wire.HeadSize:])
			if err != nil {
				panic(err)
			}
			change(&r)
			r.Sig, _ = Signer(by).Sign(proof.ReceiptDomain, r.Payload())
			return r.AppendFrame(nil)
		}
	}
	const liar = "0:3/0"
	for name, c := range map[string]struct {
		lie  Lie
		left bool
	}{
		"signs other rows":    {forge(func(r *wire.Receipt) { r.Root[3] ^= 1 }, liar), false},
		"signs for another":   {forge(func(r *wire.Receipt) {}, "3:6/0"), true},
		"another nonce":       {forge(func(r *wire.Receipt) { r.Nonce[0] ^= 1 }, liar), true},
		"another mode":        {forge(func(r *wire.Receipt) { r.Mode[0] ^= 1 }, liar), true},
		"another span":        {forge(func(r *wire.Receipt) { r.Span.End++ }, liar), true},
		"more rows than ever": {forge(func(r *wire.Receipt) { r.Rows = 1 << 20 }, liar), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, e := chain(t, 1, nil, "0:3", "3:6")
			w.Server(liar).Node.Lies(c.lie)
			s := proven(t, e, client.SessionOptions{MaxLength: 60}, client.Request{Prompt: prompt(10, 1), MaxNewTokens: 5}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			list, err := s.Receipts(ctx)
			if c.left {
				if err == nil || slices.ContainsFunc(list, func(r client.StageReceipt) bool { return r.Hop.Peer == liar }) {
					t.Errorf("%s: receipts %+v, %v", name, list, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, r := range list {
				if known, err := s.Covers(&r); r.Hop.Peer == liar && (!known || !errors.Is(err, proof.ErrRows)) {
					t.Errorf("%s: known %v, %v", name, known, err)
				}
			}
		})
	}
}

// A server that sends receipts without end, each of which must be checked, is left for
// another, and the answer goes on.
func TestTooManyReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := chain(t, 2, nil, "0:6")
		w.Server("0:6/0").Node.Lies(func(proto string, ty wire.Type, frame []byte) []byte {
			if ty == wire.TypeReceipt {
				return bytes.Repeat(frame, 1000)
			}
			return frame
		})
		p, met := prompt(10, 1), false
		for range 4 { // one of them meets the liar
			s := proven(t, e, client.SessionOptions{MaxLength: 60}, client.Request{Prompt: p, MaxNewTokens: 5}, nil)
			met = met || s.Route()[0].Peer == "0:6/0"
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			s.Receipts(ctx)
			cancel()

			synctest.Wait()
			if _, err := s.Generate(t.Context(), client.Request{MaxNewTokens: 5, TopLogprobs: -1}, nil); err != nil {
				t.Fatal(err)
			}
			if rest := s.IDs()[len(p):]; !slices.Equal(rest, FakeGreedy(p, 10)) {
				t.Errorf("the answer is %v, want %v", rest, FakeGreedy(p, 10))
			}
			if peer := s.Route()[0].Peer; peer != "0:6/1" {
				t.Errorf("the session stays with %s", peer)
			}
			s.Close()
		}
		if !met {
			t.Error("no session met the liar")
		}
	})
}

// A server that knows nothing of receipts serves the session all the same, and is not asked.
func TestNoReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := chain(t, 1, nil, "0:3", "3:6")
		asked := false
		w.Server("3:6/0").Node.Lies(func(proto string, ty wire.Type, frame []byte) []byte {
			switch ty {
			case wire.TypeAccept:
				var v wire.Status
				wire.Decode(ty, frame[wire.HeadSize:], &v)
				v.Receipts = false
				return wire.AppendJSON(nil, ty, v)
			case wire.TypeReceipt:
				asked = true
			}
			return frame
		})
		s := proven(t, e, client.SessionOptions{MaxLength: 60}, client.Request{Prompt: prompt(10, 1), MaxNewTokens: 5}, nil)
		list, err := s.Receipts(t.Context())
		if swarm.CodeOf(err) != swarm.CodeUnsupported || len(list) != 1 || asked {
			t.Errorf("receipts %+v, %v, asked %v", list, err, asked)
		}
	})
}
