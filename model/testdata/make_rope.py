"""Records the inverse frequencies that the reference library computes for rotary embeddings.

Run in this folder:  python make_rope.py
"""

import json

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
CASES = [
    (64, {"rope_type": "default", "rope_theta": 100000.0}),  # SmolLM2
    (128, {"rope_type": "default", "rope_theta": 10000.0}),  # Llama 2
    (128, {**LLAMA3, "rope_theta": 500000.0, "factor": 8.0, "original_max_position_embeddings": 8192}),  # Llama 3.1
    (64, {**LLAMA3, "rope_theta": 500000.0, "factor": 32.0, "original_max_position_embeddings": 8192}),  # Llama 3.2
    (16, {**LLAMA3, "rope_theta": 10000.0, "factor": 3.0, "original_max_position_embeddings": 100}),
    (10, {"rope_type": "linear", "rope_theta": 5000.0, "factor": 3.0}),
]


def main():
    out = []
    for dim, rope in CASES:
        config = LlamaConfig(hidden_size=dim, num_attention_heads=1, head_dim=dim, max_position_embeddings=131072,
                             rope_parameters=dict(rope))
        freqs = LlamaRotaryEmbedding(config).inv_freq
        out.append({"dim": dim, "rope": rope, "inv_freq": [float(v) for v in freqs]})
    with open("../nn/testdata/rope.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in out) + "\n]\n")


if __name__ == "__main__":
    main()
