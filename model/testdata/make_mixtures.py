"""Makes tiny random mixtures of experts and records what the reference library computes with them.

Run in this folder:  python make_mixtures.py [NAME ...]     all of MODELS, or those named
"""

import json
import os
import shutil
import sys

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from transformers import MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

import make_tiny
import record

CLASSES = {"mixtral": (MixtralConfig, MixtralForCausalLM), "qwen3moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM)}
ARCHITECTURES = {"mixtral": "llama", "qwen3moe": "qwen3moe"}  # of GGUF

# name: family, configuration, what an old config.json says besides, type of the safetensors (None: GGUF only),
# type of each GGUF matrix as a function of its name (None: no GGUF). The seed is the place in the list.
MODELS = {
    # an odd number of experts; widths that most quantised formats take; a GGUF as the oldest ones are, without stacks
    "mixtral": dict(
        family="mixtral",
        config=dict(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=3,
                    num_key_value_heads=1, head_dim=32, num_local_experts=5, num_experts_per_tok=2,
                    max_position_embeddings=256, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
        dtype=torch.bfloat16, gguf=lambda name: T.BF16, apart=True),
    # three of four experts; a window that prompts are longer than; tied head
    "mixtralwindow": dict(
        family="mixtral",
        config=dict(hidden_size=40, intermediate_size=24, num_hidden_layers=2, num_attention_heads=6,
                    num_key_value_heads=2, head_dim=12, num_local_experts=4, num_experts_per_tok=3,
                    tie_word_embeddings=True, sliding_window=21, max_position_embeddings=256,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        dtype=torch.float16),
    # one format a block, stacked experts among them
    "mixtralquants": dict(
        family="mixtral",
        config=dict(hidden_size=64, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=16, num_local_experts=4, num_experts_per_tok=2,
                    max_position_embeddings=256, rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        gguf=lambda name: (T.Q8_0, T.Q4_0, T.Q4_1)[int(name.split(".")[1])] if name.startswith("blk.") else T.Q8_0),
    # every block a mixture, renormalised
    "qwen3moe": dict(
        family="qwen3moe",
        config=dict(hidden_size=32, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=2,
                    num_attention_heads=3, num_key_value_heads=1, head_dim=32, num_experts=7, num_experts_per_tok=3,
                    norm_topk_prob=True, max_position_embeddings=256,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
        old=dict(use_sliding_window=False, sliding_window=16, max_window_layers=1),
        dtype=torch.bfloat16, gguf=lambda name: T.BF16),
    # one block of four a mixture, not renormalised; biases, a window, a tied head
    "qwen3moestep": dict(
        family="qwen3moe",
        config=dict(hidden_size=40, intermediate_size=56, moe_intermediate_size=24, num_hidden_layers=4,
                    num_attention_heads=6, num_key_value_heads=2, head_dim=12, num_experts=5, num_experts_per_tok=2,
                    norm_topk_prob=False, decoder_sparse_step=2, mlp_only_layers=[3], attention_bias=True,
                    use_sliding_window=True, sliding_window=21, tie_word_embeddings=True, max_position_embeddings=256,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        dtype=torch.float16),
}

GGUF_NAMES = {
    **make_tiny.GGUF_NAMES, "mlp.gate": "ffn_gate_inp", "mlp.experts.gate": "ffn_gate_exps",
    "mlp.experts.up": "ffn_up_exps", "mlp.experts.down": "ffn_down_exps",
}


def randomise(model):
    make_tiny.randomise(model)
    for name, p in model.named_parameters():
        if p.ndim == 3:  # experts: the sum of those chosen is what an MLP would put out
            p.copy_(torch.randn_like(p) * (2.0 / p.shape[-1] ** 0.5))
        elif name.endswith("mlp.gate.weight"):  # probabilities that differ, but not so that one expert is all
            p.copy_(torch.randn_like(p) * (1.0 / p.shape[-1] ** 0.5))


def save_safetensors(folder, model, spec):
    """Files as the library writes them; it takes the fused experts apart."""
    copy = type(model)(model.config)
    copy.load_state_dict(model.state_dict())
    copy.to(spec["dtype"]).save_pretrained(folder)
    os.remove(f"{folder}/generation_config.json")
    with open(f"{folder}/config.json") as f:
        c = json.load(f)
    rope = c.pop("rope_parameters")
    c["rope_theta"], c["rope_scaling"] = rope["rope_theta"], None
    c["torch_dtype"] = c.pop("dtype")
    c["transformers_version"] = "4.51.0"
    if spec["family"] == "qwen3moe":
        c["num_experts"] = c.pop("num_local_experts")
    c.update(spec.get("old", {}))
    with open(f"{folder}/config.v4.json", "w") as f:
        json.dump(c, f, indent=2, sort_keys=True)


def stacks(weights):
    """The weights with gate and up of the experts apart, as GGUF has them."""
    for name, t in weights.items():
        stem = name.removesuffix("gate_up_proj")
        if stem != name:
            gate, up = t.chunk(2, dim=1)
            yield stem + "gate.weight", gate
            yield stem + "up.weight", up
        elif name.endswith("experts.down_proj"):
            yield name.removesuffix("_proj") + ".weight", t
        else:
            yield name, t


def fused(stacked):
    """The opposite of stacks."""
    out = {}
    for name, t in stacked.items():
        if ".experts." not in name:
            out[name] = t
        elif name.endswith("gate.weight"):
            stem = name.removesuffix("gate.weight")
            out[stem + "gate_up_proj"] = torch.cat([t, stacked[stem + "up.weight"]], dim=1)
        elif name.endswith("down.weight"):
            out[name.removesuffix(".weight") + "_proj"] = t
    return out


def gguf_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, i, rest = stem.split(".", 3)
        return f"blk.{i}.{GGUF_NAMES[rest]}.{kind}"
    return f"{GGUF_NAMES[stem]}.{kind}"


def save_gguf(path, weights, config, spec):
    """Writes the file, with the keys and names of llama.cpp's converter, and gives back the weights as a reader
    dequantises them."""
    arch = ARCHITECTURES[spec["family"]]
    w = gguf.GGUFWriter(path, arch)
    w.add_block_count(config.num_hidden_layers)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    w.add_rope_freq_base(config.rope_parameters["rope_theta"])
    w.add_expert_count(config.num_local_experts)
    w.add_expert_used_count(config.num_experts_per_tok)
    if arch == "llama":
        w.add_rope_dimension_count(config.head_dim)
        w.add_vocab_size(config.vocab_size)
    else:
        w.add_expert_feed_forward_length(config.moe_intermediate_size)
    w.add_key_length(config.head_dim)
    w.add_value_length(config.head_dim)
    w.add_eos_token_id(2)
    back = {}
    for name, t in stacks(weights):
        data, heads = t.float().numpy(), None
        if arch == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            data = make_tiny.permute(data, heads)
        kind = T.F32 if data.ndim == 1 or name.endswith("mlp.gate.weight") else spec["gguf"](gguf_name(name))
        data = np.ascontiguousarray(data)
        raw = gguf.quantize(data, kind)
        if spec.get("apart") and data.ndim == 3:  # blk.0.ffn_up_exps.weight is blk.0.ffn_up.0.weight and so on
            for i, expert in enumerate(raw):
                w.add_tensor(gguf_name(name).replace("_exps.", f".{i}."), expert, raw_dtype=kind)
        else:
            w.add_tensor(gguf_name(name), raw, raw_dtype=kind)
        data = gguf.dequantize(raw, kind).reshape(data.shape)
        back[name] = torch.from_numpy((make_tiny.unpermute(data, heads) if heads else data).copy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return fused(back)


def make(name, spec, seed):
    torch.manual_seed(seed)
    config_class, model_class = CLASSES[spec["family"]]
    config = config_class(vocab_size=96, bos_token_id=1, eos_token_id=2, **spec["config"])
    model = model_class(config).eval()
    randomise(model)
    weights = {n: p.clone() for n, p in model.named_parameters()}
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
    if "dtype" in spec:
        weights = {n: w.to(spec["dtype"]).float() for n, w in weights.items()}
        make_tiny.set_weights(model, weights)
        save_safetensors(name, model, spec)
    if "gguf" in spec:
        back = save_gguf(f"{name}/model.gguf", weights, config, spec)
        # the floats of both files are the same
        assert "dtype" not in spec or all(torch.equal(back[n], weights[n]) for n in weights)
        make_tiny.set_weights(model, back)
    record.save(f"{name}/ref.json.gz", make_tiny.measure(model, spec, seed))


if __name__ == "__main__":
    record.prepare()
    for i, (name, spec) in enumerate(MODELS.items()):
        if name in sys.argv[1:] or not sys.argv[1:]:
            make(name, spec, 200 + i)
