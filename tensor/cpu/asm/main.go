// Program asm writes the kernels of a tier of package cpu: run "go generate" there. It is a
// program of its own so that the generator's library stays out of every build.
//
// Each kernel is the twin of a generic one and follows it operation by operation: one lane
// is one output, sums run in the same order, and there is no approximate instruction. The
// files it writes are committed; read them when a kernel is slow, spilled registers show.
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// maxRows is the greatest number of activation rows whose accumulators a kernel keeps in
// registers: with two blocks of weights, or with sums of integers beside those of floats,
// they are 24 of the 32.
const maxRows = 12

func main() {
	tier := flag.String("tier", "avx512", "kernels to write: avx512 or avx2")
	flag.Parse()
	ConstraintExpr("amd64,!purego")
	switch *tier {
	case "avx512":
		avx512Kernels()
	case "avx2":
		avx2Kernels()
	default:
		log.Fatalf("no tier %q: use avx512 or avx2", *tier)
	}
	Generate()
	if err := finish(flag.Lookup("out").Value.String(), flag.Lookup("stubs").Value.String()); err != nil {
		log.Fatal(err)
	}
}

func avx512Kernels() {
	for _, f := range formats {
		family(f.name)
		product, unpack, expand := highKernel, unpackHighKernel, expandHighKernel
		if f.scales == plain && f.bits != 5 {
			product, unpack, expand = quantKernel, unpackKernel, expandKernel
		}
		for rows := 1; rows <= wideRows; rows++ {
			product(f, rows)
		}
		unpack(f)
		expand(f)
	}
	family("float")
	for _, f := range floatFormats {
		for rows := 1; rows <= maxRows; rows++ {
			if rows <= 3 {
				// Few rows make few chains of additions: four blocks hide their latency.
				floatKernel(f, rows, 4)
			}
			floatKernel(f, rows, 2)
		}
		if f.bytes < 64 {
			widenKernel(f)
		}
	}
	family("int8")
	for rows := 1; rows <= maxRows; rows++ {
		int8Kernel(rows)
	}
	int8OutliersKernel()
	unpackINT8Kernel()
	quantiseRowKernel()
	family("nf4")
	for rows := 1; rows <= maxNF4Rows; rows++ {
		if rows <= 3 {
			nf4Kernel(rows, 4)
		}
		nf4Kernel(rows, 2)
	}
	for rows := 1; rows <= maxRows; rows++ {
		nf4PanelKernel(rows)
	}
	unpackNF4Kernel()
	family("panel")
	for _, f := range panelForms {
		for rows := 1; rows <= f.rows; rows++ {
			panelKernel(f, rows)
		}
	}
	family("row")
	quantiseKernel()
	rmsNormKernel()
	layerNormKernel()
	softmaxKernel()
	softcapKernel()
	wide.elementwise()
	activationKernels()
	family("back")
	turnKernel()
	weighKernel(false)
	weighKernel(true)
	slopeKernels()
	innerKernel()
	rmsNormBackKernel()
	layerNormBackKernel()
	family("ceiling")
	ceilingKernels()
}

// rowPtrs addresses rows a fixed stride apart through a register for each few of them.
type rowPtrs struct {
	base   []reg.GPVirtual
	each   int           // rows to a register, 1 or 3
	stride reg.GPVirtual // bytes
}

// newRowPtrs points at rows from first on, three to a register; stride stays in its register.
func newRowPtrs(first Op, stride reg.GPVirtual, rows int) rowPtrs {
	return newRowPtrsEach(first, stride, rows, 3)
}

func newRowPtrsEach(first Op, stride reg.GPVirtual, rows, each int) rowPtrs {
	p := rowPtrs{each: each, stride: stride}
	for r := 0; r < rows; r += each {
		b := GP64()
		switch {
		case r == 0:
			MOVQ(first, b)
		case each == 1:
			LEAQ(Mem{Base: p.base[len(p.base)-1], Index: stride, Scale: 1}, b)
		default:
			LEAQ(Mem{Base: p.base[len(p.base)-1], Index: stride, Scale: 2}, b)
			ADDQ(stride, b)
		}
		p.base = append(p.base, b)
	}
	return p
}

// at addresses byte disp of row r.
func (p rowPtrs) at(r, disp int) Mem {
	m := Mem{Base: p.base[r/p.each], Disp: disp}
	if r%p.each > 0 {
		m.Index, m.Scale = p.stride, uint8(r%p.each)
	}
	return m
}

// advance moves all rows by n bytes.
func (p rowPtrs) advance(n int) {
	for _, b := range p.base {
		ADDQ(I32(n), b)
	}
}

// moveTile loads (or stores) accumulators from (to) rows of memory at acc, stride bytes
// apart.
func moveTile(acc Op, stride Mem, tile [][]reg.VecVirtual, load bool) {
	p := GP64()
	MOVQ(acc, p)
	for r, row := range tile {
		if r > 0 {
			ADDQ(stride, p)
		}
		for b, z := range row {
			m := Mem{Base: p, Disp: 64 * b}
			if load {
				VMOVUPS(m, z)
			} else {
				VMOVUPS(z, m)
			}
		}
	}
}

func newTile(rows, blocks int) [][]reg.VecVirtual {
	tile := make([][]reg.VecVirtual, rows)
	for r := range tile {
		for range blocks {
			tile[r] = append(tile[r], ZMM())
		}
	}
	return tile
}

// strided is a run of blocks a stride apart.
type strided struct{ base, stride, stride3 reg.GPVirtual }

func newStrided(base, stride reg.GPVirtual, blocks int) strided {
	s := strided{base, stride, nil}
	if blocks == 4 {
		s.stride3 = GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, s.stride3)
	}
	return s
}

// at addresses byte disp of block b.
func (s strided) at(b, disp int) Mem {
	m := Mem{Base: s.base, Disp: disp}
	switch b {
	case 1, 2:
		m.Index, m.Scale = s.stride, uint8(b)
	case 3:
		m.Index, m.Scale = s.stride3, 1
	}
	return m
}

// addColumn adds the products of column i of all rows with that of each block to the sums.
func addColumn(x rowPtrs, i int, w []reg.VecVirtual, sums [][]reg.VecVirtual) {
	for r, row := range sums {
		v := ZMM()
		VBROADCASTSS(x.at(r, 4*i), v)
		for b, z := range row {
			VFMADD231PS(v, w[b], z)
		}
	}
}

func zeroTile(tile [][]reg.VecVirtual) {
	for _, row := range tile {
		for _, z := range row {
			VPXORD(z, z, z)
		}
	}
}

// param loads a parameter into a register.
func param(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// paramMem is where a parameter lies in the frame.
func paramMem(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}
