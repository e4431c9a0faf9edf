package view

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Block is one block of a model, or some in a row where a model has too many to show.
type Block struct {
	Index, End int    // up to but not including End
	Holders    int    // online servers; of the worst block of a group
	State      string // "online", "joining", "missing" or "unknown"
	Note       string // who holds it, in words
	Link       string // where to see the holders; "" for none
}

// Name is "block 7" or "blocks 8 to 11".
func (b Block) Name() string {
	if b.End-b.Index <= 1 {
		return fmt.Sprintf("Block %d", b.Index)
	}
	return fmt.Sprintf("Blocks %d to %d", b.Index, b.End-1)
}

// Title is the name and the note.
func (b Block) Title() string { return b.Name() + ": " + b.Note }

// Spare is the number of holders as styles tell them apart: "0", "1" or "2" for more.
func (b Block) Spare() string { return strconv.Itoa(min(b.Holders, 2)) }

// Glyph says the state without colour.
func (b Block) Glyph() string {
	switch b.State {
	case "online":
		if b.Holders > 99 {
			return "+"
		}
		return strconv.Itoa(b.Holders)
	case "joining":
		return "◌"
	case "missing":
		return "✕"
	}
	return "?"
}

// badness orders states, the worst first.
func (b Block) badness() int {
	switch b.State {
	case "missing":
		return -3
	case "joining":
		return -2
	case "unknown":
		return -1
	}
	return b.Holders
}

// Group makes at most so many blocks of many, each showing its worst member.
func Group(blocks []Block, most int) []Block {
	if len(blocks) <= most {
		return blocks
	}
	out := make([]Block, most)
	for i := range out {
		from, to := i*len(blocks)/most, (i+1)*len(blocks)/most
		worst := blocks[from]
		for _, b := range blocks[from:to] {
			if b.badness() < worst.badness() {
				worst = b
			}
		}
		if to-from > 1 {
			worst.Note = "the worst is block " + strconv.Itoa(worst.Index) + ": " + worst.Note
			worst.Link = ""
		}
		worst.Index, worst.End = blocks[from].Index, blocks[to-1].End
		out[i] = worst
	}
	return out
}

// Flower shows the blocks as two whorls of petals: the outer for the first holder of each
// block, the inner for a spare one.
type Flower struct {
	Petals       []Petal
	Outer, Inner string // shapes of one petal, pointing up; Inner is "" if no block has a spare holder
	Held, Of     int    // blocks
	Known        bool
}

// Petal is one block of the flower.
type Petal struct {
	State  string
	Spare  string
	Rotate string // transformation
}

// maxPetals is how many can still be told apart.
const maxPetals = 72

// NewFlower draws one.
func NewFlower(blocks []Block) Flower {
	f := Flower{Of: len(blocks), Known: true}
	for _, b := range blocks {
		if b.State == "online" {
			f.Held++
		}
		f.Known = f.Known && b.State != "unknown"
	}
	shown := Group(blocks, maxPetals)
	if len(shown) == 0 {
		return f
	}
	half := math.Pi / float64(len(shown))
	f.Outer = petal(46, 98, half)
	if slices.ContainsFunc(shown, func(b Block) bool { return b.Holders > 1 }) { // room for the inner whorl
		f.Outer, f.Inner = petal(60, 98, half), petal(43, 58, half)
	}
	for i, b := range shown {
		f.Petals = append(f.Petals, Petal{State: b.State, Spare: b.Spare(), Rotate: fmt.Sprintf("rotate(%.2f)", (float64(i)+0.5)*360/float64(len(shown)))})
	}
	return f
}

// spares are the petals of the inner whorl.
func (f Flower) spares() (out []Petal) {
	for _, p := range f.Petals {
		if p.State == "online" && p.Spare == "2" {
			out = append(out, p)
		}
	}
	return out
}

// petal is the path of a petal from one radius to another that fills nearly its share of
// the circle; half is half of that share, in radians.
func petal(from, to, half float64) string {
	w := min(math.Tan(min(half, 1.2))*(from+to)/2*1.3, (to-from)*0.58)
	return fmt.Sprintf("M0 %.1fC%.1f %.1f %.1f %.1f 0 %.1fC%.1f %.1f %.1f %.1f 0 %.1fZ",
		-from, w, -from-(to-from)*0.28, w*1.18, -to+(to-from)*0.08, -to, -w*1.18, -to+(to-from)*0.08, -w, -from-(to-from)*0.28, -from)
}

// Bar shows where a span lies in a model: numbers of a drawing as wide as the model.
type Bar struct {
	Of, Start, Len int
	State          string
}

// Box is the viewBox.
func (b Bar) Box() string { return fmt.Sprintf("0 0 %d 1", max(1, b.Of)) }
