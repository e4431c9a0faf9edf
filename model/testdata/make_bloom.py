"""Makes tiny random models of BLOOM and of Falcon, and records what the reference library computes with them.

Run in this folder:  python make_bloom.py [NAME ...]     all of MODELS, or those named
"""

import json
import os
import shutil
import sys

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from transformers import BloomConfig, BloomForCausalLM, FalconConfig, FalconForCausalLM
from transformers.models.bloom.modeling_bloom import _get_alibi_slopes

import make_tiny as tiny
import record

CLASSES = {"bloom": (BloomConfig, BloomForCausalLM), "falcon": (FalconConfig, FalconForCausalLM)}

# name: family, configuration, what older files call its fields ("old") and say besides ("says"), type of the
# safetensors, prefix that the library puts before names and the file does not ("bare"), the type of the GGUF's
# matrices (none: the format lacks the variant), and lengths of more prompts ("more": bfloat16 rounds positions from
# 257 on). A GGUF of Q8_0 is made first, and the safetensors have its values, so that who quantises them has the GGUF
# again.
MODELS = {
    # heads that are no power of two; names without a prefix, as the published files have them
    "bloom": dict(
        family="bloom",
        config=dict(hidden_size=40, n_layer=2, n_head=5, layer_norm_epsilon=1e-5, seq_length=256),
        old=dict(n_embed="hidden_size", num_attention_heads="n_head"),
        says=dict(attention_softmax_in_fp32=True, bias_dropout_fusion=True, masked_softmax_fusion=True, n_inner=None,
                  offset_alibi=100, pretraining_tp=4, skip_bias_add=True, skip_bias_add_qkv=False, unk_token_id=0),
        bare="transformer.", dtype=torch.float16, gguf=T.F16),
    # a power of two, but slopes that are none; head that is not tied; quantised
    "bloomq": dict(
        family="bloom",
        config=dict(hidden_size=64, n_layer=2, n_head=16, layer_norm_epsilon=1e-5, seq_length=256,
                    tie_word_embeddings=False),
        more=[270], dtype=torch.float32, gguf=T.Q8_0),
    # as Falcon-7B: one key/value head, MLP beside attention after one norm
    "falcon": dict(
        family="falcon",
        config=dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, multi_query=True, parallel_attn=True),
        says=dict(apply_residual_connection_post_layernorm=False, auto_map={"AutoConfig": "configuration_falcon.FalconConfig"},
                  num_kv_heads=3),
        dtype=torch.float16, gguf=T.F16),
    # as Falcon-RW: ALiBi in bfloat16, biases, MLP after attention; 11 heads, of which 3 have slopes
    # that are no powers of two
    "falconrw": dict(
        family="falcon",
        config=dict(hidden_size=44, num_hidden_layers=2, num_attention_heads=11, multi_query=False, parallel_attn=False,
                    alibi=True, bias=True),
        more=[270],
        dtype=torch.bfloat16),
    # as Falcon-40B: groups, norms of attention and of the MLP
    "falcon40": dict(
        family="falcon",
        config=dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_kv_heads=2,
                    new_decoder_architecture=True),
        dtype=torch.bfloat16, gguf=T.BF16),
    # as Falcon-11B: groups and one norm; its own width, base and head; quantised
    "falcon11": dict(
        family="falcon",
        config=dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=8, num_kv_heads=2, ffn_hidden_size=128,
                    new_decoder_architecture=True, num_ln_in_parallel_attn=1, tie_word_embeddings=False,
                    rope_parameters={"rope_type": "default", "rope_theta": 500042.0}),
        dtype=torch.float32, gguf=T.Q8_0),
}

GGUF_NAMES = {
    "word_embeddings": "token_embd", "word_embeddings_layernorm": "token_embd_norm", "ln_f": "output_norm",
    "lm_head": "output", "input_layernorm": "attn_norm", "ln_attn": "attn_norm_2", "ln_mlp": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "self_attention.query_key_value": "attn_qkv",
    "self_attention.dense": "attn_output", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
}


def randomise(model):
    for name, p in model.named_parameters():
        norm = "norm" in name or "ln_" in name
        if name.endswith("bias"):
            p.copy_(0.2 * torch.randn_like(p))
        elif norm:
            p.copy_(1 + 0.2 * torch.randn_like(p))
        elif "word_embeddings" in name:
            p.copy_(torch.randn_like(p) * (3.0 / p.shape[1] ** 0.5 if model.config.tie_word_embeddings else 1.0))
        else:
            p.copy_(torch.randn_like(p) * (2.0 / p.shape[1] ** 0.5))


def old_config(folder, spec):
    """The same configuration as older files have it, beside the new one."""
    with open(f"{folder}/config.json") as f:
        c = json.load(f)
    rope = c.pop("rope_parameters", None)
    if rope is not None:
        c["rope_theta"], c["rope_scaling"] = rope["rope_theta"], None
    for name, now in spec.get("old", {}).items():
        c[name] = c.pop(now)
    c["torch_dtype"] = c.pop("dtype")
    c["transformers_version"] = "4.20.0"
    c.update(spec.get("says", {}))
    with open(f"{folder}/config.v4.json", "w") as f:
        json.dump(c, f, indent=2, sort_keys=True)


def gguf_name(name):
    stem, kind = name.removeprefix("transformer.").rsplit(".", 1)
    if stem.startswith("h."):
        _, i, rest = stem.split(".", 2)
        return f"blk.{i}.{GGUF_NAMES[rest]}.{kind}"
    return f"{GGUF_NAMES[stem]}.{kind}"


def kv_heads(config):
    if config.model_type == "falcon" and (config.new_decoder_architecture or config.multi_query):
        return config.num_kv_heads if config.new_decoder_architecture else 1
    return config.num_attention_heads


def rows_apart(config):
    """The order of rows of query_key_value in which all queries, all keys and all values follow one another."""
    kv, heads = kv_heads(config), config.num_attention_heads
    dim, per = config.hidden_size // heads, heads // kv + 2
    rows = np.arange(kv * per * dim).reshape(kv, per, dim)
    return np.concatenate([rows[:, :-2].ravel(), rows[:, -2].ravel(), rows[:, -1].ravel()])


def save_gguf(path, weights, config, spec):
    """Writes the file, with the keys, names and order of llama.cpp's converter for the family, and gives back the
    weights as a reader dequantises them."""
    w = gguf.GGUFWriter(path, spec["family"])
    w.add_block_count(config.num_hidden_layers)
    w.add_embedding_length(config.hidden_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(kv_heads(config))
    w.add_layer_norm_eps(config.layer_norm_epsilon)
    if spec["family"] == "bloom":
        w.add_context_length(config.seq_length)
        w.add_feed_forward_length(4 * config.hidden_size)
    else:
        w.add_context_length(config.max_position_embeddings)
        w.add_tensor_data_layout("jploski")
        w.add_feed_forward_length(config.ffn_hidden_size)
        if config.rope_parameters["rope_theta"] != 10000:
            w.add_rope_freq_base(config.rope_parameters["rope_theta"])
    w.add_eos_token_id(2)
    order, back = rows_apart(config), {}
    for name, t in weights.items():
        data, fused = t.float().numpy(), "query_key_value" in name
        if fused:
            data = data[order]
        kind = T.F32 if data.ndim == 1 else spec["gguf"]
        raw = gguf.quantize(np.ascontiguousarray(data), kind)
        w.add_tensor(gguf_name(name), raw, raw_dtype=kind)
        data = gguf.dequantize(raw, kind).reshape(data.shape)
        back[name] = torch.from_numpy((data[np.argsort(order)] if fused else data).copy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return back


def make(name, spec, seed):
    torch.manual_seed(seed)
    config_class, model_class = CLASSES[spec["family"]]
    config = config_class(vocab_size=96, bos_token_id=1, eos_token_id=2, **spec["config"])
    model = model_class(config).eval()
    randomise(model)
    weights = {n: p.to(spec["dtype"]).float() for n, p in model.named_parameters()}
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
    if "gguf" in spec:
        weights = save_gguf(f"{name}/model.gguf", weights, config, spec)
    tiny.set_weights(model, weights)
    tiny.save_safetensors(name, {n.removeprefix(spec.get("bare", "")): w for n, w in weights.items()}, config, spec)
    record.save(f"{name}/ref.json.gz", tiny.measure(model, spec, seed))


def slopes():
    """Slopes of ALiBi by numbers of heads, as BLOOM has them and as Falcon rounds them."""
    table = []
    for heads in (1, 5, 11, 16, 25, 64, 71, 112, 128):
        exact = _get_alibi_slopes(heads, torch.device("cpu"))
        table.append({"heads": heads, "f32": [float(v) for v in exact], "bf16": [float(v) for v in exact.bfloat16()]})
    with open("../nn/testdata/alibi.json", "w") as f:
        json.dump(table, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    record.prepare()
    tiny.CLASSES.update(CLASSES)
    tiny.save_old_config = old_config
    for i, (name, spec) in enumerate(MODELS.items()):
        if name in sys.argv[1:] or not sys.argv[1:]:
            make(name, spec, 300 + i)
    slopes()
