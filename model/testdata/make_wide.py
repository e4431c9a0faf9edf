"""Makes wide random models, of the families that come from Petals, and records what the reference library computes.

Rows of 256 values are what Q4_K, Q5_K and Q6_K take. Weights of such models are too large to commit, so both this
script and the tests draw them from the counter of SplitMix64: weights.json says what of each tensor.

Run in this folder:  python make_wide.py [NAME ...]     all of MODELS, or those named
"""

import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BloomConfig, BloomForCausalLM, FalconConfig, FalconForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig,
    MistralForCausalLM, MixtralConfig, MixtralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
    Qwen3ForCausalLM)

import make_tiny
import record

DECODER = dict(hidden_size=256, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
               max_position_embeddings=256, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})

# name: the library's classes and configuration. The seed of prompts is the place in the list.
MODELS = {
    "llamawide": (LlamaConfig, LlamaForCausalLM, dict(DECODER, tie_word_embeddings=True)),
    "mistralwide": (MistralConfig, MistralForCausalLM, dict(DECODER, head_dim=64, sliding_window=21)),
    "mixtralwide": (MixtralConfig, MixtralForCausalLM, dict(DECODER, num_local_experts=3, num_experts_per_tok=2)),
    "qwen2wide": (Qwen2Config, Qwen2ForCausalLM, dict(DECODER, tie_word_embeddings=True)),
    "qwen3wide": (Qwen3Config, Qwen3ForCausalLM, dict(DECODER, head_dim=64, tie_word_embeddings=True)),
    "bloomwide": (BloomConfig, BloomForCausalLM, dict(hidden_size=256, n_layer=2, n_head=4, seq_length=256)),
    "falconwide": (FalconConfig, FalconForCausalLM, dict(hidden_size=256, ffn_hidden_size=256, num_hidden_layers=2,
                                                         num_attention_heads=4, multi_query=True, parallel_attn=True)),
}
SPEC = dict(family="", prompts=60, kept=5)


def recipe(name, shape):
    """Values are one + odd * step with odd numbers of so many bits and a sign: exact in bfloat16."""
    if name.endswith("bias"):
        return dict(one=0, bits=6, step=2.0**-8)
    if len(shape) == 1:  # a norm
        return dict(one=1, bits=4, step=2.0**-6)
    return dict(one=0, bits=7, step=2.0**-9)


def draw(index, spec):
    """Values of the tensor of a place in weights.json."""
    n = int(np.prod(spec["shape"]))
    z = (np.arange(n, dtype=np.uint64) + (np.uint64(index + 1) << np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    odd = 2.0 * (z >> np.uint64(64 - spec["bits"])).astype(np.float64) - (2 ** spec["bits"] - 1)
    values = torch.from_numpy(spec["one"] + odd * spec["step"])
    exact = values.to(torch.bfloat16)
    assert torch.equal(exact.double(), values)
    return exact.reshape(spec["shape"])


def make(name, seed):
    config_class, model_class, fields = MODELS[name]
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
    with tempfile.TemporaryDirectory() as folder:
        # The library says which tensors files have, and reads them.
        model_class(config_class(vocab_size=96, bos_token_id=1, eos_token_id=2, **fields)).to(torch.bfloat16).save_pretrained(folder)
        file = f"{folder}/model.safetensors"
        shapes = {n: list(t.shape) for n, t in load_file(file).items()}
        weights = [dict(name=n, shape=shapes[n], **recipe(n, shapes[n])) for n in sorted(shapes)]
        save_file({w["name"]: draw(i, w) for i, w in enumerate(weights)}, file, metadata={"format": "pt"})
        model = model_class.from_pretrained(folder, dtype=torch.float32).eval()
        shutil.copy(f"{folder}/config.json", name)
    with open(f"{name}/weights.json", "w") as f:
        f.write("[\n " + ",\n ".join(json.dumps(w) for w in weights) + "\n]\n")
    record.save(f"{name}/ref.json.gz", make_tiny.measure(model, SPEC, seed))


if __name__ == "__main__":
    record.prepare()
    for i, name in enumerate(MODELS):
        if name in sys.argv[1:] or not sys.argv[1:]:
            make(name, 300 + i)
