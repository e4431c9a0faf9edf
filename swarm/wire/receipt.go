package wire

import (
	"encoding/binary"
	"fmt"

	"whorl/swarm/proof"
)

// Receipt is a stage's receipt of all rows that it has computed in a session, as they stood
// in an epoch: since a history is cut only by a Route, epoch and number say which rows these
// are. A stage that was asked for receipts in its Open sends one whenever it is asked again
// by an empty frame, and after ReceiptSteps steps since the last one.
type Receipt struct {
	Epoch uint32
	proof.Receipt
}

// ReceiptSteps is how many steps a stage computes before it makes a receipt that nobody has
// asked for.
const ReceiptSteps = 64

// receiptHead is what goes before the receipt itself: the epoch.
const receiptHead = 4

// Append appends the epoch, as four little-endian bytes, and the receipt.
func (r *Receipt) Append(dst []byte) []byte {
	return r.Receipt.Append(binary.LittleEndian.AppendUint32(dst, r.Epoch))
}

// AppendFrame appends the whole frame.
func (r *Receipt) AppendFrame(dst []byte) []byte {
	return AppendFrame(dst, TypeReceipt, r.Append(nil))
}

// ParseReceipt reads the payload of a stage's frame; nothing of it is kept.
func ParseReceipt(p []byte) (Receipt, error) {
	if len(p) < receiptHead {
		return Receipt{}, fmt.Errorf("%w: a receipt of %d bytes", ErrFrame, len(p))
	}
	r, err := proof.ParseReceipt(p[receiptHead:])
	if err != nil {
		return Receipt{}, fmt.Errorf("%w: %v", ErrFrame, err)
	}
	return Receipt{Epoch: binary.LittleEndian.Uint32(p), Receipt: r}, nil
}
