//go:build linux && amd64 && !purego

#include "textflag.h"

// func rdtscpCore() int64
TEXT ·rdtscpCore(SB), NOSPLIT, $0-8
	RDTSCP
	ANDL $0xfff, CX // the rest numbers the memory node
	MOVQ CX, ret+0(FP)
	RET

// func hasRDTSCP() bool
TEXT ·hasRDTSCP(SB), NOSPLIT, $0-1
	MOVL  $0x80000001, AX
	CPUID
	BTL   $27, DX
	SETCS ret+0(FP)
	RET
