package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"whorl/client"
	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/proof"
)

// receiptsWait is how long servers have to answer for what they computed.
const receiptsWait = 10 * time.Second

// receiptJSON is what a server signed.
type receiptJSON struct {
	Peer   swarm.PeerID `json:"peer"`
	Blocks string       `json:"blocks"`
	Rows   uint32       `json:"rows"`
	Root   content.Hash `json:"root"`
	Nonce  content.Hash `json:"nonce"`
	// Agrees says whether these are the rows that this session sent and got; null where that
	// is not known here, as of the last server.
	Agrees *bool `json:"agrees"`
	// Receipt is the receipt itself, in base64: 140 bytes and the signature.
	Receipt []byte `json:"receipt"`
}

// receipts asks the servers of a session for theirs; the error says who owes one. What is
// there is returned all the same.
func receipts(ctx context.Context, s *client.Session) ([]receiptJSON, error) {
	wait, cancel := context.WithTimeout(ctx, receiptsWait)
	defer cancel()
	list, owed := s.Receipts(wait)
	out := []receiptJSON{}
	slices.SortStableFunc(list, func(a, b client.StageReceipt) int { return cmp.Compare(a.Hop.Span.Start, b.Hop.Span.Start) })
	for _, r := range list {
		o := receiptJSON{Peer: r.Hop.Peer, Blocks: r.Hop.Span.String(), Rows: r.Rows, Root: r.Root, Nonce: r.Nonce, Receipt: r.Receipt.Receipt.Append(nil)}
		known, err := s.Covers(&r)
		if err != nil && !errors.Is(err, proof.ErrRows) {
			return out, err
		}
		if known {
			agrees := err == nil
			o.Agrees = &agrees
		}
		out = append(out, o)
	}
	return out, owed
}
