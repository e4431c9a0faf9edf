"""Records how bitsandbytes 0.50.2 (torch 2.15.0, CPU) quantises whole matrices to INT8 and NF4.

Run in this folder:  python bnb.py matrices.txt
"""

import hashlib
import sys

import bitsandbytes
import bitsandbytes.functional as F
import numpy as np
import torch


def values(rows, cols):
    """The same numbers that the test makes, all exact in float32."""
    i = np.arange(rows * cols, dtype=np.int64)
    x = ((i * i * 31 + i * 17) % 2039 - 1019).astype(np.float32) / np.float32(4096)
    return torch.from_numpy(x * ((i // 64 * 5 + i // 1024) % 23 + 1).astype(np.float32)).view(rows, cols)


def line(out, name, rows, cols, heads, codes, unpacked):
    heads = heads.numpy().astype("<f4").tobytes().hex()
    digest = hashlib.sha256(unpacked.numpy().astype("<f4").tobytes()).hexdigest()
    print(name, rows, cols, heads, codes.numpy().tobytes().hex(), digest, file=out)


def int8(out, rows, cols):
    q, stats, _ = F.int8_vectorwise_quant(values(rows, cols))
    line(out, "int8", rows, cols, stats, q, F.int8_vectorwise_dequant(q, stats))


def nf4(out, rows, cols):
    q, state = F.quantize_4bit(values(rows, cols), blocksize=64, quant_type="nf4", compress_statistics=False)
    # The second quantisation by its definition, the nearest level: the library's CUDA and portable code compare
    # with middles of levels, its x86 code looks up a coarser table and misses the nearest one near some of them.
    offset = state.absmax.mean()
    code = F.create_dynamic_map()
    absmax = []
    for group in (state.absmax - offset).split(256):
        top = group.abs().max()
        nearest = torch.bucketize(group * (1 / top), (code[:-1] + code[1:]) / 2)
        absmax.append(code[nearest] * top + offset)
    library, theirs = F.quantize_4bit(values(rows, cols), blocksize=64, quant_type="nf4", compress_statistics=True)
    assert torch.equal(q, library) and theirs.offset == offset
    same = F.dequantize_blockwise(theirs.absmax, theirs.state2) + theirs.offset == torch.cat(absmax)
    print(f"nf4 {rows}x{cols}: {int(same.sum())} of {len(same)} scales equal the x86 code's")
    state.absmax = torch.cat(absmax)
    line(out, "nf4", rows, cols, state.absmax, q, F.dequantize_4bit(q, state))


with open(sys.argv[1], "w") as out:
    print("# bitsandbytes", bitsandbytes.__version__, "- remade by bnb.py beside this file", file=out)
    print("# format, rows, columns, scales of rows or blocks, codes, sha256 of the unpacked float32 values", file=out)
    int8(out, 3, 100)
    int8(out, 2, 576)
    nf4(out, 1, 64)
    nf4(out, 5, 192)
    nf4(out, 11, 1536)  # groups of 256 scales end inside rows
