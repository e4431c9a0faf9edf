//go:build amd64 && !purego

package cpu

// Fixed by the loops in assembly (asm/ceiling.go).
const (
	readTurnBytes = 1024
	dotChains     = 24
)

// archLoops are the loops in assembly, if this processor can run them.
func archLoops() (l loops, ok bool) {
	if !hasAVX512() {
		return loops{}, false
	}
	return loops{
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
	}, true
}
