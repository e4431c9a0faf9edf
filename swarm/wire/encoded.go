package wire

// RowsFrame is an encoded frame of rows, TypeRows or TypeJournal, in one piece so that it
// takes one write. Whoever holds one need not know how it is laid out.
type RowsFrame []byte

// RowsFrameSize is the size of a frame with a payload of n bytes.
func RowsFrameSize(h *RowsHeader, n int) int { return HeadSize + h.Size() + n }

// BeginRows appends all of a frame but its payload, which is to follow: n bytes of rows.
func BeginRows(dst []byte, t Type, h *RowsHeader, n int) RowsFrame {
	return h.Append(AppendHeader(dst, t, h.Size()+n))
}

// Type is that of the frame.
func (f RowsFrame) Type() Type { return Type(f[HeadSize-1]) }

// Restamp makes it a frame of another epoch.
func (f RowsFrame) Restamp(epoch uint32) { putEpoch(f[HeadSize:], epoch) }
