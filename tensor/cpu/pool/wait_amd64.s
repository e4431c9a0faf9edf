//go:build amd64 && !purego

#include "textflag.h"

// func pause()
TEXT ·pause(SB), NOSPLIT, $0-0
	PAUSE
	RET

// func Fetch(at uintptr, bytes int)
TEXT ·Fetch(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), AX
	MOVQ bytes+8(FP), CX

line:
	SUBQ $64, CX
	JLT  done
	PREFETCHT1 (AX)
	ADDQ $64, AX
	JMP  line

done:
	RET
