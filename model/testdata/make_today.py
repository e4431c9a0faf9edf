"""Makes tiny random models of families of today, and records what the reference library computes with them.

Run in this folder:  python make_today.py [NAME ...]     all of MODELS, or those named
"""

import os
import shutil
import sys

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from transformers import (
    CohereConfig, CohereForCausalLM, GraniteConfig, GraniteForCausalLM, Olmo2Config, Olmo2ForCausalLM, Phi3Config,
    Phi3ForCausalLM, SmolLM3Config, SmolLM3ForCausalLM)

import make_tiny as tiny
import record

CLASSES = {
    "phi3": (Phi3Config, Phi3ForCausalLM), "olmo2": (Olmo2Config, Olmo2ForCausalLM),
    "smollm3": (SmolLM3Config, SmolLM3ForCausalLM), "granite": (GraniteConfig, GraniteForCausalLM),
    "cohere": (CohereConfig, CohereForCausalLM),
}

DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}
SHORT = [1.0, 1.02, 1.05, 1.1, 1.2, 1.4]
LONG = [1.1, 1.3, 2.0, 3.5, 6.0, 9.0]

# Every family once with odd sizes and floats, and once (q) with widths that quantised formats take.
MODELS = {
    # partial rotation, 12 of 16; sessions of more than 40 ids rotate by the long factors
    "phi3": dict(
        family="phi3", pad=0,
        config=dict(hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, rms_norm_eps=1e-5, max_position_embeddings=160,
                    original_max_position_embeddings=40, tie_word_embeddings=True,
                    rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
                                     "short_factor": SHORT, "long_factor": LONG,
                                     "original_max_position_embeddings": 40}),
        dtype=torch.bfloat16, gguf=lambda name: T.BF16),
    "phi3q": dict(
        family="phi3", pad=0,
        config=dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-5, max_position_embeddings=256, sliding_window=16,
                    rope_parameters=DEFAULT),
        dtype=torch.float32, gguf=lambda name: (T.Q8_0, T.Q4_0)["ffn" in name] if name.startswith("blk") else T.F16),
    "olmo2": dict(
        family="olmo2",
        config=dict(hidden_size=40, intermediate_size=56, num_hidden_layers=3, num_attention_heads=5,
                    num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-6, max_position_embeddings=256,
                    rope_parameters={"rope_type": "default", "rope_theta": 500000.0}),
        dtype=torch.bfloat16, gguf=lambda name: T.BF16),
    "olmo2q": dict(
        family="olmo2",
        config=dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-6, max_position_embeddings=256, rope_parameters=DEFAULT),
        dtype=torch.float32, gguf=lambda name: (T.Q8_0, T.Q4_1)["ffn" in name] if name.startswith("blk") else T.F16),
    "smollm3": dict(
        family="smollm3", pad=0,
        config=dict(hidden_size=48, intermediate_size=56, num_hidden_layers=4, num_attention_heads=6,
                    num_key_value_heads=2, rms_norm_eps=1e-6, max_position_embeddings=256, tie_word_embeddings=True,
                    rope_parameters={"rope_type": "default", "rope_theta": 5000000.0}),
        dtype=torch.float16, gguf=lambda name: T.F16),
    "smollm3q": dict(
        family="smollm3", pad=0,
        config=dict(hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-6, max_position_embeddings=256, tie_word_embeddings=False,
                    rope_parameters=DEFAULT),
        dtype=torch.float32, gguf=lambda name: (T.Q8_0, T.Q4_0)["ffn" in name] if name.startswith("blk") else T.F16),
    "granite": dict(
        family="granite",
        config=dict(hidden_size=40, intermediate_size=56, num_hidden_layers=3, num_attention_heads=5,
                    num_key_value_heads=1, rms_norm_eps=1e-5, max_position_embeddings=256, tie_word_embeddings=True,
                    embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.7, logits_scaling=1.5,
                    attention_bias=True, mlp_bias=True, rope_parameters=DEFAULT),
        dtype=torch.bfloat16, gguf=lambda name: T.BF16),
    "graniteq": dict(
        family="granite",
        config=dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, rms_norm_eps=1e-5, max_position_embeddings=256,
                    embedding_multiplier=2.0, attention_multiplier=0.25, residual_multiplier=0.9, logits_scaling=0.5,
                    rope_parameters=DEFAULT),
        dtype=torch.float32, gguf=lambda name: (T.Q8_0, T.Q4_1)["ffn" in name] if name.startswith("blk") else T.F16),
    "cohere": dict(
        family="cohere", pad=0,
        config=dict(hidden_size=40, intermediate_size=56, num_hidden_layers=3, num_attention_heads=5,
                    num_key_value_heads=1, layer_norm_eps=1e-5, max_position_embeddings=256, logit_scale=0.6,
                    rope_parameters={"rope_type": "default", "rope_theta": 8000000.0}),
        dtype=torch.bfloat16, gguf=lambda name: T.BF16),
    "cohereq": dict(
        family="cohere", pad=0,
        config=dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, layer_norm_eps=1e-5, max_position_embeddings=256, logit_scale=1.5,
                    attention_bias=True, rope_parameters=DEFAULT),
        dtype=torch.float32, gguf=lambda name: (T.Q8_0, T.Q4_0)["ffn" in name] if name.startswith("blk") else T.F16),
}

# The converter permutes rows of Q and K for ggml's rope of pairs, but for Command-R, whose rows are pairs.
PERMUTED = ("smollm3", "granite")


def add_keys(w, family, config):
    w.add_block_count(config.num_hidden_layers)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    rope, dim = config.rope_parameters, config.hidden_size // config.num_attention_heads
    w.add_rope_freq_base(rope["rope_theta"])
    if family == "cohere":
        w.add_layer_norm_eps(config.layer_norm_eps)
        w.add_logit_scale(config.logit_scale)
        w.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    else:
        w.add_layer_norm_rms_eps(config.rms_norm_eps)
    if family in PERMUTED:
        w.add_vocab_size(config.vocab_size)
        w.add_rope_dimension_count(dim)
    if family == "granite":
        w.add_embedding_scale(config.embedding_multiplier)
        w.add_attention_scale(config.attention_multiplier)
        w.add_residual_scale(config.residual_multiplier)
        w.add_logit_scale(config.logits_scaling)
    if family == "phi3":
        w.add_rope_dimension_count(int(dim * rope.get("partial_rotary_factor", 1)))
        if config.sliding_window:
            w.add_sliding_window(config.sliding_window)
        if rope["rope_type"] == "longrope":
            old = config.original_max_position_embeddings
            w.add_rope_scaling_orig_ctx_len(old)
            w.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(config.max_position_embeddings / old) / np.log(old))))
            w.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], dtype=np.float32))
            w.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], dtype=np.float32))
    w.add_eos_token_id(2)


def save_gguf(path, weights, config, spec):
    """Writes the file with the keys and names of llama.cpp's converter, and gives back the weights as a reader
    dequantises them."""
    family = spec["family"]
    w = gguf.GGUFWriter(path, {"cohere": "command-r"}.get(family, family))
    add_keys(w, family, config)
    names = tiny.GGUF_NAMES | {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
    if family == "olmo2":
        names |= {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"}
    back = {}
    for name, t in weights.items():
        data, heads = t.float().numpy(), None
        if family in PERMUTED and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            data = tiny.permute(data, heads)
        stem, end = name.rsplit(".", 1)
        if stem.startswith("model.layers."):
            _, _, i, rest = stem.split(".", 3)
            to = f"blk.{i}.{names[rest]}.{end}"
        else:
            to = f"{names[stem]}.{end}"
        kind = T.F32 if data.ndim == 1 else spec["gguf"](to)
        raw = gguf.quantize(np.ascontiguousarray(data), kind)
        w.add_tensor(to, raw, raw_dtype=kind)
        data = gguf.dequantize(raw, kind).reshape(data.shape)
        back[name] = torch.from_numpy((tiny.unpermute(data, heads) if heads else data).copy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return back


def measure(model, spec, seed):
    """As for the other models, but that lengths stay on one side of the context at which longrope switches: the
    library switches while it generates, and a session must not."""
    rope = model.config.rope_parameters
    if rope["rope_type"] != "longrope":
        return tiny.measure(model, spec, seed)
    rng, old = np.random.default_rng(seed), rope["original_max_position_embeddings"]
    lengths = [1, 2, 60] + [int(n) for n in rng.integers(3, old - tiny.NEW + 1, 25)] + [int(n) for n in rng.integers(old + 1, 80, 25)]
    prompts = [[int(v) for v in rng.integers(0, model.config.vocab_size, n)] for n in lengths]
    ref = {"prompts": []}
    for ids in prompts:
        new, margins = record.greedy(model, ids, tiny.NEW)
        ref["prompts"].append({"ids": ids, "new": new, "margins": margins})
    one = prompts[-1][:45]
    ref["blocks"] = {"ids": one, "rows": record.blocks(model, one), "logits": record.logits(model, one)}
    ref["scores"] = [{"ids": ids, "logprobs": record.score(model, ids)} for ids in prompts[2:6]]
    return ref


def make(name, spec, seed):
    torch.manual_seed(seed)
    config_class, model_class = CLASSES[spec["family"]]
    pad = {"pad_token_id": spec["pad"]} if "pad" in spec else {}
    config = config_class(vocab_size=96, bos_token_id=1, eos_token_id=2, **pad, **spec["config"])
    model = model_class(config).eval()
    tiny.randomise(model)
    weights = {n: p.clone().to(spec["dtype"]).float() for n, p in model.named_parameters()}
    tiny.set_weights(model, weights)
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
    tiny.save_safetensors(name, weights, config, spec)
    record.save(f"{name}/ref.json.gz", measure(model, spec, seed))
    back = save_gguf(f"{name}/model.gguf", weights, config, spec)
    if all(torch.equal(back[n], weights[n]) for n in weights):
        return
    tiny.set_weights(model, back)
    record.save(f"{name}/gguf.json.gz", measure(model, spec, seed))


if __name__ == "__main__":
    record.prepare()
    tiny.CLASSES.update(CLASSES)
    for i, (name, spec) in enumerate(MODELS.items()):
        if name in sys.argv[1:] or not sys.argv[1:]:
            make(name, spec, 300 + i)
