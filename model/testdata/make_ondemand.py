"""Makes a tiny random Llama and records what it computes once its blocks are quantised on load to INT8 and to NF4.

Run in this folder:  python make_ondemand.py
"""

import os
import shutil

import bitsandbytes.functional as F
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import make_tiny
import record

NAME, SEED = "ondemand", 9
# Rows of 64 for NF4; gate, up and down have more than the 256 scales of a second quantisation.
SPEC = dict(
    config=dict(hidden_size=64, intermediate_size=320, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, rms_norm_eps=1e-5, max_position_embeddings=256,
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    dtype=torch.float16)
THRESHOLD = 6.0


class Int8Linear(torch.nn.Module):
    """LLM.int8() in float32, decided for every row by itself, by the library's own operations.

    The library's module goes through float16 and takes the outlier columns of a whole batch: neither is wanted here.
    Its int8_mm_dequant multiplies by 6.200124e-05 where 1/127**2 is 6.200012e-05; the exact number stands here."""

    seen = [0, 0]  # rows without outliers and with some

    def __init__(self, weight):
        super().__init__()
        self.q, self.stats, _ = F.int8_vectorwise_quant(weight.clone())

    def forward(self, x):
        out = [self.row(r[None]) for r in x.reshape(-1, x.shape[-1])]
        return torch.cat(out).reshape(*x.shape[:-1], -1)

    def row(self, x):
        q, stats, outliers = F.int8_vectorwise_quant(x, threshold=THRESHOLD)
        sums = torch.ops.bitsandbytes.int8_linear_matmul(q, self.q)
        y = sums.float() * (stats[:, None] * self.stats[None]) * (1 / 127**2)
        slip = 2e-5 * y.abs()
        Int8Linear.seen[int(len(outliers) > 0)] += 1
        if len(outliers):
            y += x[:, outliers] @ F.int8_vectorwise_dequant(self.q[:, outliers].contiguous(), self.stats).t()
        library, _ = torch.ops.bitsandbytes.int8_mixed_scaled_mm(x, q, self.q, stats, self.stats, outliers, None)
        assert ((library - y).abs() <= slip + 1e-5 * y.abs().max()).all()
        return y


def nf4(weight):
    """The values that QLoRA's format stands for, scales quantised to the nearest level (tensor/quant/testdata/bnb.py)."""
    q, state = F.quantize_4bit(weight, blocksize=64, quant_type="nf4", compress_statistics=False)
    offset, code, absmax = state.absmax.mean(), F.create_dynamic_map(), []
    for group in (state.absmax - offset).split(256):
        top = group.abs().max()
        absmax.append(code[torch.bucketize(group * (1 / top), (code[:-1] + code[1:]) / 2)] * top + offset)
    state.absmax = torch.cat(absmax)
    return F.dequantize_4bit(q, state)


def linears(model):
    for block in model.model.layers:
        for part in (block.self_attn, block.mlp):
            for name, m in list(part.named_children()):
                if isinstance(m, torch.nn.Linear):
                    yield part, name, m


def main():
    torch.manual_seed(SEED)
    config = LlamaConfig(vocab_size=96, bos_token_id=1, eos_token_id=2, **SPEC["config"])
    model = LlamaForCausalLM(config).eval()
    make_tiny.randomise(model)
    for block in model.model.layers:  # columns that go beyond the threshold in some rows
        block.input_layernorm.weight[5] = 4.5
        block.post_attention_layernorm.weight[[0, 63]] = 4.0
    weights = {n: p.clone().to(SPEC["dtype"]).float() for n, p in model.named_parameters()}
    shutil.rmtree(NAME, ignore_errors=True)
    os.makedirs(NAME)
    make_tiny.set_weights(model, weights)
    make_tiny.save_safetensors(NAME, weights, config, SPEC)
    os.remove(f"{NAME}/config.v4.json")
    for _, _, m in linears(model):
        m.weight.copy_(nf4(m.weight.clone()))
    record.save(f"{NAME}/nf4.json.gz", make_tiny.measure(model, SPEC, SEED))
    make_tiny.set_weights(model, weights)
    for part, name, m in linears(model):
        setattr(part, name, Int8Linear(m.weight))
    record.save(f"{NAME}/int8.json.gz", make_tiny.measure(model, SPEC, SEED))
    print("int8: rows without outliers and with some:", Int8Linear.seen)
    assert min(Int8Linear.seen) > 1000


if __name__ == "__main__":
    record.prepare()
    main()
