#include "textflag.h"

// func stream(to, from []byte)
TEXT ·stream(SB), NOSPLIT, $0-48
	MOVQ to_base+0(FP), DI
	MOVQ from_base+24(FP), SI
	MOVQ from_len+32(FP), CX

	// The ends, which are not aligned: 32 bytes at the beginning, 128 at the end. The loop writes some of them again.
	VMOVDQU (SI), Y0
	VMOVDQU -128(SI)(CX*1), Y1
	VMOVDQU -96(SI)(CX*1), Y2
	VMOVDQU -64(SI)(CX*1), Y3
	VMOVDQU -32(SI)(CX*1), Y4
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, -128(DI)(CX*1)
	VMOVDQU Y2, -96(DI)(CX*1)
	VMOVDQU Y3, -64(DI)(CX*1)
	VMOVDQU Y4, -32(DI)(CX*1)

	// From the next multiple of 32 on, 128 bytes a turn.
	MOVQ DI, AX
	ANDQ $31, AX
	SUBQ $32, AX
	SUBQ AX, DI
	SUBQ AX, SI
	ADDQ AX, CX
	SHRQ $7, CX

turn:
	PREFETCHT0 1024(SI)
	PREFETCHT0 1088(SI)
	VMOVDQU    (SI), Y0
	VMOVDQU    32(SI), Y1
	VMOVDQU    64(SI), Y2
	VMOVDQU    96(SI), Y3
	VMOVNTDQ   Y0, (DI)
	VMOVNTDQ   Y1, 32(DI)
	VMOVNTDQ   Y2, 64(DI)
	VMOVNTDQ   Y3, 96(DI)
	ADDQ       $128, SI
	ADDQ       $128, DI
	DECQ       CX
	JNZ        turn

	SFENCE
	VZEROUPPER
	RET
