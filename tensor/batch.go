package tensor

// Row places one row of a batch: which sequence it belongs to and at which position.
type Row struct {
	Seq int32 // index into Batch.Seqs
	Pos int32 // position in the sequence, from 0
}

// KVView is what one sequence has reserved of a KV cache: page i holds positions
// [i*PageTokens, (i+1)*PageTokens) of every layer.
type KVView struct {
	Pages []int32
	// Rope, if not nil, takes the place of AttendSpec.Rope, where that is not nil: the
	// rotation of a session whose length decides it.
	Rope Rope
}

// Batch describes the rows of one step. It is ragged: rows of different sequences at
// different positions share one pass over the weights. Rows of one sequence are
// consecutive and their positions rise by one, so a prefill chunk is a run of rows and a
// decode is a single row.
type Batch struct {
	Rows []Row
	Seqs []KVView
}

// PageTokens is the number of positions in a KV page on every device.
const PageTokens = 64

// AttendSplit is the number of positions in a split of the attention walk (package doc);
// a multiple of PageTokens.
const AttendSplit = 256
