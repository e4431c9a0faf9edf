package main

// format is a format of groups of 32 columns: how those of 16 rows lie (package cpu). A new
// one is a row of formats, for both tiers.
type format struct {
	name    string
	bits    int       // of a value: 8, or 4 and lines of those above
	scales  scaleKind // how they lie
	minimum bool      // plain: a float16 minimum too
	offset  int       // what is taken from a stored value; not beside minima
}

type scaleKind int

const (
	plain  scaleKind = iota // a float16 scale for each group
	minima                  // 6-bit scales and minima in super-blocks
	halves                  // signed scales for each 16 columns in super-blocks
)

var formats = []format{
	{"Q8_0", 8, plain, false, 128},
	{"Q4_0", 4, plain, false, 8},
	{"Q4_1", 4, plain, true, 0},
	{"Q5_0", 5, plain, false, 16},
	{"Q4_K", 4, minima, false, 0},
	{"Q5_K", 5, minima, false, 0},
	{"Q6_K", 6, halves, false, 32},
}

const (
	superGroups = 8
	groupScales = 32 // bytes of the 16 lanes for each group
)

// lines is the number of 64-byte lines of a group.
func (f format) lines() int { return f.bits }

// high is the number of bits of a value above its nibble.
func (f format) high() int { return f.bits - 4 }

// headBytes are those of the float16 numbers of a super-block.
func (f format) headBytes() int { return [...]int{minima: 64, halves: 32}[f.scales] }

// undo is where a group of activations keeps the sum that undoes the offset, 0 if nowhere.
func (f format) undo() int { return map[int]int{128: groupOff8, 8: groupOff4}[f.offset] }
