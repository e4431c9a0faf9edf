//go:build amd64 && !purego

package cpu

// Fixed by the loops in assembly (asm/ceiling.go, asm/avx2_ceiling.go).
const (
	readTurnBytes = 1024
	dotChains     = 24
	avx2Chains    = 12
)

// archLoops lists the loops in assembly that this processor can run, best first.
func archLoops() (all []loops) {
	if hasAVX512() {
		all = append(all, avx512Loops)
	}
	if hasAVX2() {
		all = append(all, avx2Loops)
	}
	return all
}

var avx512Loops = loops{
	name: "avx512",
	read: func(b []byte) { avx512Read(&b[0], len(b)/readTurnBytes) },
	f32: func(turns int) int64 {
		avx512DotF32(turns)
		return int64(turns) * dotChains * 16 * 2
	},
	int8: func(turns int) int64 {
		avx512DotInt8(turns)
		return int64(turns) * dotChains * 64 * 2
	},
}

var avx2Loops = loops{
	name: "avx2",
	read: func(b []byte) { avx2Read(&b[0], len(b)/readTurnBytes) },
	f32: func(turns int) int64 {
		avx2DotF32(turns)
		return int64(turns) * avx2Chains * 8 * 2
	},
	int8: func(turns int) int64 {
		avx2DotInt8(turns)
		return int64(turns) * avx2Chains * 32 * 2
	},
}
