package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// wideRows is the greatest number of activation rows of a kernel of quantised weights.
const wideRows = 16

// totals are the float accumulators of a kernel that goes through its weights a block at a
// time: one for each row, in registers, or where rows are more than maxRows in the frame,
// since the sums of integers take the registers then. That costs a load and a store for
// each group and row; going through the weights twice costs more.
type totals struct {
	rows int
	regs [][]reg.VecVirtual // [row][1], or none
	mem  reg.GPVirtual      // aligned to a line; with spare lines behind the totals
}

// newTotals makes totals in registers if rows are at most inRegs; otherwise in the frame,
// with so many spare lines for each row behind them.
func newTotals(rows, inRegs, spare int) totals {
	if rows <= inRegs {
		return totals{rows: rows, regs: newTile(rows, 1)}
	}
	t := totals{rows: rows, mem: GP64()}
	LEAQ(AllocLocal(64*rows*(1+spare)+64), t.mem)
	ADDQ(Imm(63), t.mem)
	ANDQ(I8(-64), t.mem)
	return t
}

// textFlags are those of a kernel of so many rows: the frame of one whose totals have no
// registers is too large for a function that does not look whether the stack has room.
func textFlags(rows, inRegs int) attr.Attribute {
	if rows <= inRegs {
		return attr.NOSPLIT
	}
	return 0
}

func (t totals) at(r int) Mem { return Mem{Base: t.mem, Disp: 64 * r} }

// move loads (or stores) the totals of rows from (to) memory at acc, stride bytes apart.
func (t totals) move(acc reg.GPVirtual, stride Mem, load bool) {
	if t.mem == nil {
		moveTile(acc, stride, t.regs, load)
		return
	}
	p := GP64()
	MOVQ(acc, p)
	for r := range t.rows {
		if r > 0 {
			ADDQ(stride, p)
		}
		from, to := Mem{Base: p}, t.at(r)
		if !load {
			from, to = to, from
		}
		z := ZMM()
		VMOVUPS(from, z)
		VMOVUPS(z, to)
	}
}

// columns are four columns of weights.
type columns struct {
	w  reg.VecVirtual
	at int // the first of them
}

// lastColumn is the first of the last columns of a group.
const lastColumn = 28

// group is where the dot products of a group are made, but for those with its last columns,
// which are kept until the group ends.
type group struct {
	x    rowPtrs
	last columns
}

func (g *group) dot(w reg.VecVirtual, at int, sums []reg.VecVirtual) {
	c := columns{w, at}
	if at == lastColumn {
		g.last = c
		return
	}
	g.x.dot(c, sums)
}

// endLag is how many rows the ends of groups stay behind the last dot products where totals
// lie in the frame: so loads and stores, which ends are full of, meet arithmetic.
const endLag = 6

// end adds the last columns of a group to the sums of integers; scaled makes the products
// of a row of its sum. They are added, times the scales of rows, to the totals, and then if
// there are minima the sum of the row's group times these.
func (t totals) end(g group, sums []reg.VecVirtual, scaled func(r int, sum reg.VecVirtual) reg.VecVirtual, mw reg.VecVirtual) {
	x, last := g.x, g.last
	if t.mem == nil {
		x.dot(last, sums)
		products := make([]reg.VecVirtual, t.rows)
		for r, s := range sums {
			products[r] = scaled(r, s)
		}
		for r, p := range products {
			VFMADD231PS_BCST(x.at(r, groupScale), p, t.regs[r][0])
		}
		if mw != nil {
			for r := range products {
				VFMADD231PS_BCST(x.at(r, groupSum), mw, t.regs[r][0])
			}
		}
		return
	}
	for i := range t.rows + endLag {
		if i < t.rows {
			vpdpbusd(x.at(i, last.at), last.w, sums[i])
		}
		r := i - endLag
		if r < 0 {
			continue
		}
		p, d := scaled(r, sums[r]), ZMM()
		VBROADCASTSS(x.at(r, groupScale), d)
		VFMADD213PS(t.at(r), d, p) // p*d + total
		if mw != nil {
			VFMADD231PS_BCST(x.at(r, groupSum), mw, p)
		}
		VMOVUPS(p, t.at(r))
	}
}
