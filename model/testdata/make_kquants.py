"""Makes a tiny random model whose GGUF has Q4_K, Q5_K, Q5_0 and Q6_K, and records what the reference library computes.

Run in this folder:  python make_kquants.py
"""

import numpy as np
from gguf import GGMLQuantizationType as T

import make_tiny as tiny
import record

# Blocks of 256 want rows of 256; the outputs of attention and of the FFN's middle have rows of 64.
KINDS = {"token_embd": T.Q6_K, "attn_output": T.Q5_0, "ffn_down": T.Q5_0}
SPEC = dict(
    config=dict(hidden_size=256, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, head_dim=16,
                num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-5, max_position_embeddings=256,
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    gguf=lambda name: next((t for part, t in KINDS.items() if part in name), None)
    or (T.Q4_K, T.Q5_K)[int(name.split(".")[1])])


def random_k(high, spread):
    """Blocks of random bits with a spread near that of data: half d and dmin, 12 bytes of scales, bytes of high bits,
    128 of nibbles. The mean of d*scale*q is that of dmin*minimum if dmin is d times the mean q."""
    def make(data):
        rng = np.random.default_rng(data.size)
        rows, blocks = data.shape[0], data.shape[1] // 256
        d = float(data.std()) / spread * rng.uniform(0.7, 1.3, (rows, blocks, 1))
        dmin = d * (15.5 if high else 7.5)
        heads = [v.astype(np.float16).view(np.uint8) for v in (d, dmin)]
        bits = rng.integers(0, 256, (rows, blocks, 12 + high + 128), dtype=np.uint8)
        return np.concatenate([*heads, bits], axis=-1).reshape(rows, -1)
    return make


tiny.RANDOM[T.Q4_K] = random_k(0, 258.0)
tiny.RANDOM[T.Q5_K] = random_k(32, 527.0)

if __name__ == "__main__":
    record.prepare()
    tiny.make("kquants", SPEC, 400)
