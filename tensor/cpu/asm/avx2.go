package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of the tier "avx2" need AVX2, FMA and F16C. Sixteen lanes are two registers,
// of which there are only 16, so that constants stay in memory: most instructions take an
// operand from there at no cost.

// avx2Kernels writes them all.
func avx2Kernels() {
	for _, f := range formats {
		family(f.name)
		for rows := 1; rows <= avx2QuantRows; rows++ {
			avx2QuantKernel(f, rows)
		}
		avx2UnpackKernel(f)
	}
	family("float")
	for _, f := range avx2Floats {
		for rows := 1; rows <= avx2FloatRows; rows++ {
			if rows == 1 {
				avx2FloatKernel(f, rows, 4)
			}
			avx2FloatKernel(f, rows, avx2FloatBlocks(rows))
		}
		if f.bytes < 64 {
			avx2WidenKernel(f)
		}
	}
	family("int8")
	for rows := 1; rows <= avx2INT8Rows; rows++ {
		avx2INT8Kernel(rows)
	}
	avx2INT8OutliersKernel()
	avx2UnpackINT8Kernel()
	avx2QuantiseRowKernel()
	family("nf4")
	for rows := 1; rows <= avx2NF4Rows; rows++ {
		avx2NF4Kernel(rows)
	}
	for rows := 1; rows <= avx2NF4PanelRows; rows++ {
		avx2NF4PanelKernel(rows)
	}
	avx2UnpackNF4Kernel()
	family("row")
	avx2QuantiseKernel()
	avx2RMSNormKernel()
	avx2LayerNormKernel()
	avx2SoftmaxKernel()
	avx2SoftcapKernel()
	narrow.elementwise()
	avx2ActivationKernels()
	family("back")
	avx2TurnKernel()
	avx2WeighKernel(false)
	avx2WeighKernel(true)
	avx2SlopeKernels()
	avx2InnerKernel()
	avx2RMSNormBackKernel()
	avx2LayerNormBackKernel()
	family("ceiling")
	avx2CeilingKernels()
}

// pair16 is 16 lanes in two registers.
type pair16 [2]reg.VecVirtual

func newPair() pair16 { return pair16{YMM(), YMM()} }

// newPairs are accumulators for rows and blocks.
func newPairs(rows, blocks int) [][]pair16 {
	tile := make([][]pair16, rows)
	for r := range tile {
		for range blocks {
			tile[r] = append(tile[r], newPair())
		}
	}
	return tile
}

func zeroPairs(tile [][]pair16) {
	for _, row := range tile {
		for _, halves := range row {
			for _, y := range halves {
				VPXOR(y, y, y)
			}
		}
	}
}

// movePairs is moveTile for pairs.
func movePairs(acc reg.GPVirtual, stride Mem, tile [][]pair16, load bool) {
	p := GP64()
	MOVQ(acc, p)
	for r, row := range tile {
		if r > 0 {
			ADDQ(stride, p)
		}
		for b, pair := range row {
			for h, y := range pair {
				m := Mem{Base: p, Disp: 64*b + 32*h}
				if load {
					VMOVUPS(m, y)
				} else {
					VMOVUPS(y, m)
				}
			}
		}
	}
}

// constants are those already in memory, by their bits.
var constants = map[uint32]Mem{}

// constant is 32 bits in each of 8 lanes, in memory.
func constant(bits uint32) Mem {
	m, ok := constants[bits]
	if !ok {
		m = GLOBL(fmt.Sprintf("lanes_%08x", bits), RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(bits))
		}
		constants[bits] = m
	}
	return m
}

// number is a constant float32.
func number(v float32) Mem { return constant(bits(v)) }

const signBit = 1 << 31

// signs is the sign bit of each lane.
func signs() Mem { return constant(signBit) }

func zero8() reg.VecVirtual {
	y := YMM()
	VPXOR(y, y, y)
	return y
}

// inRegister loads a constant that is used so often that a load each time would tell.
func inRegister(m Op) reg.VecVirtual {
	y := YMM()
	VMOVDQU(m, y)
	return y
}
