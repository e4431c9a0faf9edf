// Package cpu computes on the processor: the fast device of the arithmetic "exact1".
//
// A [Device] drives a table of inner loops, the kernels of one tier: "generic" is plain Go
// and always there, "avx512" and "avx2" are assembly made by the program in asm. All tiers
// read the same repacked weights and give the same bits, so the tier is a matter of speed
// only.
//
// # Layout
//
// Weights are repacked at load into blocks of 16 output rows, one row per lane of a
// 512-bit register or of two of 256, so that a lane runs over its columns in order and no sum ever crosses
// lanes. Rows are padded with zeros to a multiple of 64.
//
//	floats      block: [column][16 rows] values as stored (32, 16 bits)
//	q8_0        block: [group][8 lines]; a line is 64 bytes: columns 4c..4c+3 of 16 rows,
//	            as unsigned bytes q+128; scales apart: [group][16 rows] float16
//	q4_0, q4_1  block: [group][4 lines]; a byte of line c holds column 4c+i in its low and
//	            column 16+4c+i in its high nibble; q4_1 has 16 scales and 16 minima a group
//	q5_0        lines as of q4_0, then one of fifth bits: those of line c are bit 2c of its
//	            low and bit 2c+1 of its high nibbles; scales as of q4_0
//	q4_k, q5_k  lines as of q4_0 and q5_0; scales apart: [8 groups][16 float16 scales, 16
//	            float16 minima, then for each group 16 bytes of scales and 16 of minima]
//	q6_k        lines as of q4_0, then two of upper pairs of bits, low and high of line 0,
//	            of line 1, ...; scales apart: [8 groups][16 float16 scales, then for each
//	            group 16 signed bytes of scales of its first half and 16 of its second]
//	int8        block: a line for 4 columns, as in q8_0; columns padded to 16; magnitudes
//	            apart: [16 rows] float32
//	nf4         block: a line for 8 columns: 32 bits of each of 16 rows, column 8c+i in bits
//	            4i..4i+3; scales apart: [group of 64][16 rows] float32
//
// A KV page uses the float layout, of float32 or bfloat16, for both parts: keys are blocks
// of 16 positions over the head's dimensions, values are blocks of 16 dimensions over
// positions. Scores and weighted sums are then the same float product as a weight's.
//
// # What runs where
//
//	op (device lock) -> tasks of the op -> pool: tiles taken one by one by the caller and
//	the workers -> kernels of the tier
//
// It knows nothing of models, files or sessions.
package cpu

//go:generate go run ./asm -tier avx512 -out avx512_amd64.s -stubs avx512_stubs_amd64.go -pkg cpu
//go:generate go run ./asm -tier avx2 -out avx2_amd64.s -stubs avx2_stubs_amd64.go -pkg cpu
