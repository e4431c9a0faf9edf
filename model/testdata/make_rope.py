"""Records the inverse frequencies that the reference library computes for rotary embeddings.

Run in this folder:  python make_rope.py
"""

import json

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
CASES = [
    (64, {"rope_type": "default", "rope_theta": 100000.0}),  # SmolLM2
    (128, {"rope_type": "default", "rope_theta": 10000.0}),  # Llama 2
    (128, {**LLAMA3, "rope_theta": 500000.0, "factor": 8.0, "original_max_position_embeddings": 8192}),  # Llama 3.1
    (64, {**LLAMA3, "rope_theta": 500000.0, "factor": 32.0, "original_max_position_embeddings": 8192}),  # Llama 3.2
    (16, {**LLAMA3, "rope_theta": 10000.0, "factor": 3.0, "original_max_position_embeddings": 100}),
    (16, {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 100}),
    (128, {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768}),  # Qwen
    (64, {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "original_max_position_embeddings": 4096,
          "beta_fast": 24.0, "beta_slow": 2.0, "truncate": False, "attention_factor": 1.25}),
    (64, {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "original_max_position_embeddings": 4096,
          "mscale": 1.0, "mscale_all_dim": 0.7}),
    (16, {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 100,
          "short_factor": [1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 2.5], "long_factor": [1.1, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]}),
    (16, {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}),
    (10, {"rope_type": "linear", "rope_theta": 5000.0, "factor": 3.0}),
]


def main():
    out = []
    for dim, rope in CASES:
        context = 100 if rope["rope_type"] == "dynamic" else 131072
        config = LlamaConfig(hidden_size=dim, num_attention_heads=1, head_dim=dim, max_position_embeddings=context,
                             rope_parameters=dict(rope))
        # The kinds that depend on the length are recorded short and long.
        for length in (50, 101, 777) if rope["rope_type"] in ("dynamic", "longrope") else (1,):
            rotary = LlamaRotaryEmbedding(config)
            rotary(torch.zeros(1), torch.tensor([[length - 1]]))
            out.append({"dim": dim, "context": context, "length": length, "rope": rope, "magnitude": rotary.attention_scaling,
                        "inv_freq": [float(v) for v in rotary.inv_freq]})
    with open("../nn/testdata/rope.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in out) + "\n]\n")


if __name__ == "__main__":
    main()
