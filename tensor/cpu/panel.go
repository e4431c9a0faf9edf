package cpu

// Where weights meet many rows, a panel of them, two blocks over a run of columns, is
// brought once into the form that costs least to multiply with, and stays in the
// first-level cache while all rows of a tile pass. A run of columns continues
// the sums that the run before it left, so every sum keeps its order.

const (
	// byteGroups and floatCols are the greatest number of groups (columns) of a panel: it
	// fills two thirds of 48 KiB, and the rows that pass have the rest.
	byteGroups = 24
	floatCols  = 256
)

// panelGroup is a group of a block in a panel of bytes, whatever the format. The layout is
// known to the assembly (asm/panel.go).
type panelGroup struct {
	lines   [group * lanes]uint8 // line c: columns 4c..4c+3 of each lane; for offsets see panelForm
	scale   [lanes]float32
	minimum [lanes]float32 // of formats with one
}

// panelForm says what a panelGroup holds.
type panelForm uint8

const (
	plainPanel   panelForm = iota // value+128, one scale
	minimumPanel                  // value, and a minimum too
	halfPanel                     // value+32, and for minimum the scale of columns from 16 on
)

// panelArgs describes a product of two blocks with quantised rows: for every row r, block b
// and lane j, the sum acc[r*accStride+b*16+j] continues over the groups of the panel. Then
// it is stored to out[r*outStride+b*16+j], or added to what is there.
type panelArgs struct {
	acc       []float32
	accStride int
	panel     []panelGroup // [group][2]
	form      panelForm
	x         []quantGroup
	xStride   int // groups
	rows      int
	out       []float32 // acc, or memory apart from it
	outStride int
	add       bool
}

// panels are the panels of a thread.
type panels struct {
	bytes  []panelGroup // [group][2]
	args   panelArgs
	floats []float32 // [2][column][16]
	nf4    nf4PanelArgs
}

func newPanels() panels {
	return panels{bytes: make([]panelGroup, 2*byteGroups), floats: make([]float32, 2*floatCols*lanes)}
}

// equalParts cuts n in as few parts of at most most as there can be, and gives their
// greatest length: 13 in parts of 12 are 7 and 6, not 12 and 1.
func equalParts(n, most int) int {
	parts := (n + most - 1) / most
	return (n + parts - 1) / parts
}
