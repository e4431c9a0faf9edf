"""Makes a tiny random model whose GGUF has Q2_K, Q3_K, IQ4_XS, IQ4_NL and Q5_1, and records what the reference library
computes.

Run in this folder:  python make_repacked.py
"""

import numpy as np
from gguf import GGMLQuantizationType as T

import make_tiny as tiny
import record

# Blocks of 256 want rows of 256; the outputs of attention and of the FFN's middle have rows of 64.
NARROW = ("attn_output", "ffn_down")


def kind_of(name):
    if name.startswith("token_embd"):
        return T.Q3_K
    block = int(name.split(".")[1])
    return (T.IQ4_NL, T.Q5_1, T.IQ4_NL)[block] if any(n in name for n in NARROW) else (T.Q2_K, T.Q3_K, T.IQ4_XS)[block]


SPEC = dict(
    config=dict(hidden_size=256, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, head_dim=16,
                num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-5, max_position_embeddings=256,
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    gguf=kind_of)


def random_blocks(columns, size, at, spread, low=None, per=0.0):
    """Blocks of random bits with a spread near that of data: a half at byte at, which is so many times smaller, and
    perhaps one at low, per times that one."""
    def make(data):
        rng = np.random.default_rng(data.size)
        rows, blocks = data.shape[0], data.shape[1] // columns
        raw = rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
        d = float(data.std()) / spread * rng.uniform(0.7, 1.3, (rows, blocks, 1))
        raw[..., at:at + 2] = d.astype(np.float16).view(np.uint8)
        if low is not None:
            raw[..., low:low + 2] = (per * d).astype(np.float16).view(np.uint8)
        return raw.reshape(rows, -1)
    return make


tiny.RANDOM[T.Q2_K] = random_blocks(256, 84, 80, 13.9, 82, 1.5)
tiny.RANDOM[T.Q3_K] = random_blocks(256, 110, 108, 43.0)
tiny.RANDOM[T.IQ4_XS] = random_blocks(256, 136, 0, 1220.0)
tiny.RANDOM[T.IQ4_NL] = random_blocks(32, 18, 0, 66.0)

if __name__ == "__main__":
    record.prepare()
    tiny.make("repacked", SPEC, 410)
