"""Makes tiny random models of the Gemma families, and records what the reference library computes with them.

Run in this folder:  python make_gemma.py [NAME ...]     all of MODELS, or those named
"""

import json
import os
import shutil
import sys

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from transformers import Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig

import make_tiny as tiny
import record

CLASSES = {"gemma2": (Gemma2Config, Gemma2ForCausalLM), "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM)}

# Prompts of 60 ids go beyond windows of 16. Widths are multiples of 32 where a GGUF is quantised.
MODELS = {
    "gemma2": dict(
        family="gemma2",
        config=dict(hidden_size=48, intermediate_size=64, num_hidden_layers=3, num_attention_heads=6,
                    num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=16, sliding_window=16,
                    attn_logit_softcapping=6.0, final_logit_softcapping=5.0, rms_norm_eps=1e-6,
                    max_position_embeddings=256, rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        dtype=torch.bfloat16, gguf=lambda name: T.BF16),
    "gemma2q": dict(
        family="gemma2",
        config=dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=16, sliding_window=32, rms_norm_eps=1e-6,
                    max_position_embeddings=256, rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        dtype=torch.float32, gguf=lambda name: T.Q8_0 if "token_embd" in name else (T.Q8_0, T.Q4_0)[int(name.split(".")[1])]),
    "gemma3": dict(
        family="gemma3",
        config=dict(hidden_size=40, intermediate_size=64, num_hidden_layers=4, num_attention_heads=5,
                    num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16, sliding_window=16, rms_norm_eps=1e-6,
                    max_position_embeddings=512, sliding_window_pattern=3,
                    rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                                     "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
        dtype=torch.float16, gguf=lambda name: T.F16),
    "gemma3q": dict(
        family="gemma3",
        config=dict(hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=16, sliding_window=16, rms_norm_eps=1e-6,
                    max_position_embeddings=512, sliding_window_pattern=2,
                    rope_parameters={"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100000.0},
                                     "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
        dtype=torch.float32,
        gguf=lambda name: T.F16 if "token_embd" in name else (T.Q8_0, T.Q4_0, T.Q4_1)[int(name.split(".")[1])]),
}

GGUF_NAMES = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def old_config(folder, spec):
    """The same configuration in the form of transformers 4, beside the new one."""
    with open(f"{folder}/config.json") as f:
        c = json.load(f)
    rope = c.pop("rope_parameters")
    c.pop("layer_types", None)
    c.pop("_sliding_window_pattern", None)
    if spec["family"] == "gemma3":
        full = rope["full_attention"]
        c["sliding_window_pattern"] = spec["config"]["sliding_window_pattern"]
        c["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        c["rope_theta"] = full.pop("rope_theta")
        c["rope_scaling"] = full
    else:
        c["rope_theta"] = rope["rope_theta"]
        c["hidden_act"] = c["hidden_activation"]
    c["torch_dtype"] = c.pop("dtype")
    c["transformers_version"] = "4.50.0"
    with open(f"{folder}/config.v4.json", "w") as f:
        json.dump(c, f, indent=2, sort_keys=True)


def save_gguf(path, weights, config, spec):
    """Writes the file with the keys and names of llama.cpp's converter, which adds one to the gains of norms, and
    gives back the weights as a reader dequantises them."""
    w = gguf.GGUFWriter(path, spec["family"])
    w.add_block_count(config.num_hidden_layers)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    w.add_key_length(config.head_dim)
    w.add_value_length(config.head_dim)
    w.add_sliding_window(config.sliding_window)
    if spec["family"] == "gemma2":
        w.add_attn_logit_softcapping(config.attn_logit_softcapping)
        w.add_final_logit_softcapping(config.final_logit_softcapping)
    else:
        full = config.rope_parameters["full_attention"]
        w.add_rope_freq_base(full["rope_theta"])
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(full["factor"])
        w.add_uint32("gemma3.attention.sliding_window_pattern", spec["config"]["sliding_window_pattern"])
    w.add_eos_token_id(2)
    back = {}
    for name, t in weights.items():
        data = t.float().numpy()
        kind = T.F32 if data.ndim == 1 else spec["gguf"](tiny.gguf_name(name))
        raw = gguf.quantize(np.ascontiguousarray(data + 1 if data.ndim == 1 else data), kind)
        w.add_tensor(tiny.gguf_name(name), raw, raw_dtype=kind)
        back[name] = t if data.ndim == 1 else torch.from_numpy(gguf.dequantize(raw, kind).reshape(data.shape).copy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return back


def make(name, spec, seed):
    torch.manual_seed(seed)
    config_class, model_class = CLASSES[spec["family"]]
    config = config_class(vocab_size=96, bos_token_id=1, eos_token_id=2, **spec["config"])
    config._attn_implementation = "eager"  # the one that knows soft caps
    model = model_class(config).eval()
    tiny.randomise(model)
    for n, p in model.named_parameters():
        if "norm" in n:
            p.sub_(1)  # the library adds it
    weights = {n: p.clone().to(spec["dtype"]).float() for n, p in model.named_parameters()}
    tiny.set_weights(model, weights)
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
    tiny.save_safetensors(name, weights, config, spec)
    record.save(f"{name}/ref.json.gz", tiny.measure(model, spec, seed))
    back = save_gguf(f"{name}/model.gguf", weights, config, spec)
    if all(torch.equal(back[n], weights[n]) for n in weights):
        return
    tiny.set_weights(model, back)
    record.save(f"{name}/gguf.json.gz", tiny.measure(model, spec, seed))


if __name__ == "__main__":
    record.prepare()
    tiny.CLASSES.update(CLASSES)
    tiny.GGUF_NAMES.update(GGUF_NAMES)
    tiny.save_old_config = old_config
    for i, (name, spec) in enumerate(MODELS.items()):
        if name in sys.argv[1:] or not sys.argv[1:]:
            make(name, spec, 200 + i)
