"""Makes tiny random models, of every family, and records what the reference library computes with them.

Run in this folder:  python make_tiny.py [NAME ...]     all of MODELS, or those named
"""

import json
import os
import shutil
import sys

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from safetensors.torch import save_file
from transformers import (
    LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
    Qwen3ForCausalLM)

import record

CLASSES = {
    "llama": (LlamaConfig, LlamaForCausalLM), "mistral": (MistralConfig, MistralForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}

NEW = 16  # ids of greedy decoding
ATTN_FACTOR = np.float32(1.125)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}

# name: family (llama if none is given), configuration, what an old config.json says besides, type of the
# safetensors (None: GGUF only), prefix of their names, shards, and the type of each GGUF tensor as a
# function of its name (None: no GGUF). Besides: the number of prompts, lengths of some more, and the number of ids
# whose block outputs are kept. The seed is the place in the list: add at the end.
MODELS = {
    # biases, tied head, odd head count, rope scaling that prompts of 60 tokens go beyond
    "scaled": dict(
        config=dict(hidden_size=48, intermediate_size=64, num_hidden_layers=3, num_attention_heads=3,
                    num_key_value_heads=1, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                    rms_norm_eps=1e-5, max_position_embeddings=256,
                    rope_parameters={**LLAMA3, "rope_theta": 10000.0, "original_max_position_embeddings": 32}),
        dtype=torch.bfloat16, shards=2, gguf=lambda name: T.BF16),
    # head_dim that is not hidden / heads, names as inside a vision model
    "linear": dict(
        config=dict(hidden_size=40, intermediate_size=56, num_hidden_layers=2, num_attention_heads=5,
                    num_key_value_heads=5, head_dim=12, rms_norm_eps=1e-6, max_position_embeddings=512,
                    rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0}),
        dtype=torch.float16, prefix="language_model."),
    # one model in both formats, with the published rope scaling of Llama 3.1
    "pair": dict(
        config=dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2,
                    num_key_value_heads=1, rms_norm_eps=1e-5, max_position_embeddings=16384,
                    rope_parameters={**LLAMA3, "rope_theta": 500000.0, "original_max_position_embeddings": 8192}),
        dtype=torch.float32, gguf=lambda name: T.F32),
    # one format a block
    "quants": dict(
        config=dict(hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
                    num_key_value_heads=2, attention_bias=True, rms_norm_eps=1e-5, max_position_embeddings=256,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        gguf=lambda name: T.Q8_0 if "token_embd" in name else T.Q4_0 if name.startswith("output.") else
        (T.Q8_0, T.Q4_0, T.Q4_1, T.F16)[int(name.split(".")[1])]),
    # Q6_K takes rows of 256; the rest as in files that mix formats
    "mixed": dict(
        config=dict(hidden_size=256, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, head_dim=16,
                    num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-5, max_position_embeddings=256,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        gguf=lambda name: T.Q4_1 if "ffn_down" in name or "attn_output" in name else T.Q6_K),
    # biases on Q, K and V only; a window that is switched off
    "qwen2": dict(
        family="qwen2",
        config=dict(hidden_size=72, intermediate_size=80, num_hidden_layers=2, num_attention_heads=9,
                    num_key_value_heads=3, tie_word_embeddings=True, rms_norm_eps=1e-6, max_position_embeddings=256,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
        old=dict(use_sliding_window=False, sliding_window=16, max_window_layers=1),
        dtype=torch.bfloat16, gguf=lambda name: T.BF16),
    # norms per head; heads whose size is not hidden / heads
    "qwen3": dict(
        family="qwen3",
        config=dict(hidden_size=40, intermediate_size=56, num_hidden_layers=3, num_attention_heads=9,
                    num_key_value_heads=3, head_dim=12, rms_norm_eps=1e-6, max_position_embeddings=256,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
        old=dict(use_sliding_window=False, sliding_window=16, max_window_layers=1),
        dtype=torch.float16, gguf=lambda name: T.F16),
    # both: biases before the norms per head; tied head
    "qwen3biased": dict(
        family="qwen3",
        config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=16, attention_bias=True, tie_word_embeddings=True,
                    rms_norm_eps=1e-5, max_position_embeddings=256,
                    rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}),
        dtype=torch.float32),
    # a window as long as the context; llama in GGUF
    "mistral": dict(
        family="mistral",
        config=dict(hidden_size=40, intermediate_size=56, num_hidden_layers=2, num_attention_heads=9,
                    num_key_value_heads=3, head_dim=12, rms_norm_eps=1e-5, max_position_embeddings=256,
                    sliding_window=256, rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        old=dict(sliding_window=None),
        dtype=torch.bfloat16, gguf=lambda name: T.BF16),
    # a window over more than a page of the cache, and texts of which whole pages lie outside of it
    "mistralwindow": dict(
        family="mistral",
        config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=16, rms_norm_eps=1e-5, max_position_embeddings=512,
                    sliding_window=70, rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        dtype=torch.bfloat16, more=[75, 150, 290], kept=75),
    # a window in all blocks but the first
    "qwen2window": dict(
        family="qwen2",
        config=dict(hidden_size=40, intermediate_size=48, num_hidden_layers=3, num_attention_heads=5,
                    num_key_value_heads=1, rms_norm_eps=1e-6, max_position_embeddings=256, use_sliding_window=True,
                    sliding_window=17, max_window_layers=1,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        dtype=torch.float16, kept=30),
    # a window in blocks that the configuration lists
    "qwen3window": dict(
        family="qwen3",
        config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=6,
                    num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-6, max_position_embeddings=256,
                    use_sliding_window=True, sliding_window=23, max_window_layers=3,
                    layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        old=dict(layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        dtype=torch.bfloat16, kept=30),
    # biases; rotations stretched in part, with a factor of cos and sin
    "yarn": dict(
        config=dict(hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=16, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5,
                    max_position_embeddings=128,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                     "original_max_position_embeddings": 32}),
        dtype=torch.bfloat16, gguf=lambda name: T.BF16, prompts=50, kept=45),
    # the same with every parameter given
    "yarnfull": dict(
        config=dict(hidden_size=40, intermediate_size=48, num_hidden_layers=2, num_attention_heads=5,
                    num_key_value_heads=5, head_dim=12, mlp_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-5,
                    max_position_embeddings=128,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 5000.0, "factor": 3.0, "beta_fast": 4.0,
                                     "beta_slow": 0.5, "truncate": False, "attention_factor": 1.25,
                                     "original_max_position_embeddings": 40}),
        dtype=torch.float16, prompts=50, kept=45),
    # biases; rotations that depend on the length of the session
    "dynamic": dict(
        config=dict(hidden_size=40, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=12, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5,
                    max_position_embeddings=40,
                    rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.5}),
        dtype=torch.float16, prompts=50, more=[120], kept=45),
    # yarn with what keys of GGUF can say of it; the factor of cos and sin is ATTN_FACTOR times yarn's own
    "yarnkeys": dict(
        config=dict(hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=16, rms_norm_eps=1e-5, max_position_embeddings=128,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 3.0, "beta_fast": 2.0,
                                     "beta_slow": 0.25, "original_max_position_embeddings": 40,
                                     "attention_factor": float(ATTN_FACTOR * np.float32(0.1 * np.log(3.0) + 1))}),
        dtype=torch.bfloat16, gguf=lambda name: T.BF16, prompts=50, kept=45),
}

GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def randomise(model):
    """Weights that keep rows near unit size and logits apart; norms and biases are random too."""
    for name, p in model.named_parameters():
        if "norm" in name:
            p.copy_(1 + 0.2 * torch.randn_like(p))
        elif name.endswith("bias"):
            p.copy_(0.2 * torch.randn_like(p))
        elif "embed_tokens" in name:
            # a tied table is the LM head too, and logits should lie near each other
            p.copy_(torch.randn_like(p) * (3.0 / p.shape[1] ** 0.5 if model.config.tie_word_embeddings else 1.0))
        else:
            p.copy_(torch.randn_like(p) * (2.0 / p.shape[1] ** 0.5))


def set_weights(model, weights):
    for name, p in model.named_parameters():
        p.copy_(weights[name])


def save_safetensors(folder, weights, config, spec):
    prefix = spec.get("prefix", "")
    tensors = {prefix + n: w.to(spec["dtype"]).contiguous() for n, w in weights.items()}
    shards = spec.get("shards", 1)
    if shards == 1:
        save_file(tensors, f"{folder}/model.safetensors", metadata={"format": "pt"})
    else:
        where = {}
        names = sorted(tensors)
        for i in range(shards):
            part = names[i::shards]
            file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
            save_file({n: tensors[n] for n in part}, f"{folder}/{file}", metadata={"format": "pt"})
            where.update({n: file for n in part})
        with open(f"{folder}/model.safetensors.index.json", "w") as f:
            json.dump({"metadata": {}, "weight_map": where}, f, indent=1, sort_keys=True)
    config.dtype = spec["dtype"]
    config.architectures = [CLASSES[family_of(spec)][1].__name__]
    config.save_pretrained(folder)
    save_old_config(folder, spec)


def family_of(spec):
    return spec.get("family", "llama")


def save_old_config(folder, spec):
    """The same configuration in the form of transformers 4, beside the new one."""
    with open(f"{folder}/config.json") as f:
        c = json.load(f)
    rope = c.pop("rope_parameters")
    c["rope_theta"] = rope.pop("rope_theta")
    c["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    if rope["rope_type"] == "linear":  # the oldest spelling
        rope["type"] = rope.pop("rope_type")
    c["torch_dtype"] = c.pop("dtype")
    c["transformers_version"] = "4.43.0"
    if family_of(spec) == "llama":
        c["pretraining_tp"] = 1
    c.pop("layer_types", None)
    c.update(spec.get("old", {}))
    with open(f"{folder}/config.v4.json", "w") as f:
        json.dump(c, f, indent=2, sort_keys=True)


def permute(w, heads):
    """Rows of a head from halves (i, i + dim/2) to pairs (2i, 2i + 1), for ggml's rope."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def unpermute(w, heads):
    return w.reshape(heads, w.shape[0] // heads // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def gguf_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, i, rest = stem.split(".", 3)
        return f"blk.{i}.{GGUF_NAMES[rest]}.{kind}"
    return f"{GGUF_NAMES[stem]}.{kind}"


def rope_factors(config):
    """What llama.cpp's converter stores for llama3 scaling."""
    r = config.rope_parameters
    if r["rope_type"] != "llama3":
        return None
    dim, old = config.head_dim, r["original_max_position_embeddings"]
    freqs = 1.0 / (r["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    factors = []
    for freq in freqs:
        wave = 2 * np.pi / float(freq)
        if wave < old / r["high_freq_factor"]:
            factors.append(1.0)
        elif wave > old / r["low_freq_factor"]:
            factors.append(r["factor"])
        else:
            smooth = (old / wave - r["low_freq_factor"]) / (r["high_freq_factor"] - r["low_freq_factor"])
            factors.append(1 / ((1 - smooth) / r["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def random_q6k(data):
    """Blocks of random bits with a spread near that of data: the gguf package packs no Q6_K, and a packer
    would leave some bits rare. 256 values are 128 low nibbles, 64 high pairs, 16 scales and a half."""
    rng = np.random.default_rng(data.size)
    rows, blocks = data.shape[0], data.shape[1] // 256
    bits = rng.integers(0, 256, (rows, blocks, 192), dtype=np.uint8)
    scales = rng.integers(-30, 31, (rows, blocks, 16)).astype(np.int8).view(np.uint8)
    spread = 18.5 * 17.6  # of a random 6-bit value and of a scale
    d = (float(data.std()) / spread * rng.uniform(0.7, 1.3, (rows, blocks, 1))).astype(np.float16).view(np.uint8)
    return np.concatenate([bits, scales, d], axis=-1).reshape(rows, blocks * 210)


RANDOM = {T.Q6_K: random_q6k}  # what makes blocks of the types that the gguf package does not pack


def save_gguf(path, weights, config, spec):
    """Writes the file, with the keys and names of llama.cpp's converter for the family, and gives back the weights
    as a reader dequantises them."""
    arch = {"mistral": "llama"}.get(family_of(spec), family_of(spec))
    w = gguf.GGUFWriter(path, arch)
    w.add_block_count(config.num_hidden_layers)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    w.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if arch == "llama":
        w.add_rope_dimension_count(config.head_dim)
    if getattr(config, "head_dim", None):
        w.add_key_length(config.head_dim)
        w.add_value_length(config.head_dim)
    if arch == "llama":
        w.add_vocab_size(config.vocab_size)
    w.add_eos_token_id(2)
    rope = config.rope_parameters
    if rope["rope_type"] == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "attention_factor" in rope:
            w.add_rope_scaling_attn_factors(float(ATTN_FACTOR))
            w.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
            w.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    factors = rope_factors(config)
    if factors is not None:
        w.add_tensor("rope_freqs.weight", factors)
    back = {}
    for name, t in weights.items():
        data, heads = t.float().numpy(), None
        if arch == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            data = permute(data, heads)
        kind = T.F32 if data.ndim == 1 else spec["gguf"](gguf_name(name))
        data = np.ascontiguousarray(data)
        raw = RANDOM[kind](data) if kind in RANDOM else gguf.quantize(data, kind)
        w.add_tensor(gguf_name(name), raw, raw_dtype=kind)
        data = gguf.dequantize(raw, kind).reshape(data.shape)
        back[name] = torch.from_numpy((unpermute(data, heads) if heads else data).copy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return back


def fresh_rotation(model):
    """A rotation that depends on the length keeps that of the longest text so far, unless it is made anew."""
    rotation = model.model.rotary_emb
    model.model.rotary_emb = type(rotation)(model.config)


def greedy_at_length(model, ids, n):
    """As record.greedy, with all positions rotated as in one forward of the session's whole length: causal attention
    sees nothing of the padding."""
    fresh_rotation(model)
    ids, out, margins, whole = list(ids), [], [], len(ids) + n
    for _ in range(n):
        logits = model(input_ids=torch.tensor([ids + [0] * (whole - len(ids))]), use_cache=False).logits[0, len(ids) - 1]
        top = torch.topk(logits, 2)
        out.append(int(top.indices[0]))
        margins.append(round(float(top.values[0] - top.values[1]), 6))
        ids.append(out[-1])
    fresh_rotation(model)
    return out, margins


def short(v):
    """Values of float32 in the digits that they need."""
    if isinstance(v, dict):
        return {k: short(x) for k, x in v.items()}
    if isinstance(v, list):
        return [short(x) for x in v]
    return float(f"{v:.9g}") if isinstance(v, float) else v


def measure(model, spec, seed):
    rng, vocab = np.random.default_rng(seed), model.config.vocab_size
    count = spec.get("prompts", 20 if family_of(spec) == "llama" else 50)
    lengths = [1, 2, 60] + [int(n) for n in rng.integers(3, 40, count - 3)] + spec.get("more", [])
    prompts = [[int(v) for v in rng.integers(0, vocab, n)] for n in lengths]
    ref = {"prompts": []}
    dynamic = (getattr(model.config, "rope_parameters", None) or {}).get("rope_type") == "dynamic"
    for ids in prompts:
        new, margins = (greedy_at_length if dynamic else record.greedy)(model, ids, NEW)
        ref["prompts"].append({"ids": ids, "new": new, "margins": margins})
    one = prompts[3][:10]
    if "kept" in spec:
        one = next(p for p in prompts if len(p) >= spec["kept"])[:spec["kept"]]
    ref["blocks"] = {"ids": one, "rows": record.blocks(model, one), "logits": record.logits(model, one)}
    if "kept" in spec:
        ref["blocks"] = short(ref["blocks"])
    ref["scores"] = []
    for ids in prompts[2:6] + prompts[count:]:
        if dynamic:
            fresh_rotation(model)
        ref["scores"].append({"ids": ids, "logprobs": record.score(model, ids)})
    return ref


def make(name, spec, seed):
    torch.manual_seed(seed)
    config_class, model_class = CLASSES[family_of(spec)]
    config = config_class(vocab_size=96, bos_token_id=1, eos_token_id=2, **spec["config"])
    model = model_class(config).eval()
    randomise(model)
    weights = {n: p.clone() for n, p in model.named_parameters()}
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
    if "dtype" in spec:
        weights = {n: w.to(spec["dtype"]).float() for n, w in weights.items()}
        set_weights(model, weights)
        save_safetensors(name, weights, config, spec)
        record.save(f"{name}/ref.json.gz", measure(model, spec, seed))
    if "gguf" in spec:
        back = save_gguf(f"{name}/model.gguf", weights, config, spec)
        if "dtype" not in spec:
            set_weights(model, back)
            record.save(f"{name}/ref.json.gz", measure(model, spec, seed))
        else:  # the floats of both files are the same
            assert all(torch.equal(back[n], weights[n]) for n in weights)


if __name__ == "__main__":
    record.prepare()
    for i, (name, spec) in enumerate(MODELS.items()):
        if name in sys.argv[1:] or not sys.argv[1:]:
            make(name, spec, 100 + i)
