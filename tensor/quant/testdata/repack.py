"""Blocks of random bits as the gguf package unpacks them:  python repack.py > repack.txt"""

import sys

import gguf
import numpy as np
from gguf.quants import dequantize

T = gguf.GGMLQuantizationType
# bytes of a block, and where its halves are
SIZES = {"Q3_K": (110, [108]), "IQ4_NL": (18, [0]), "Q2_K": (84, [80, 82]), "IQ4_XS": (136, [0]), "Q5_1": (24, [0, 2])}

rng = np.random.default_rng(11)
print("# reference values of the gguf Python package %s; remade by repack.py beside this file"
      % __import__("importlib.metadata").metadata.version("gguf"))
for name, (size, halves) in SIZES.items():
    for scale in [1.0, 0.1, 2e-6, 6e4]:  # the third are subnormal
        b = rng.integers(0, 256, 2 * size, dtype=np.uint8)
        for at in halves:
            for block in range(2):
                h = np.float16(min(max(rng.standard_normal() * scale, -65504), 65504))
                b[block * size + at:][:2] = np.frombuffer(h.tobytes(), dtype=np.uint8)
        y = dequantize(b.reshape(1, -1), T[name]).reshape(-1)
        assert np.isfinite(y).all()
        print(name, b.tobytes().hex(), np.ascontiguousarray(y, dtype="<f4").tobytes().hex())
