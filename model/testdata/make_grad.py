"""Records what the reference library's autograd makes of the tiny models that the other scripts made.

The blocks of a model read given rows, to whose first positions prompts are added before every block; the loss is the product of
what the last block puts out with given numbers. Kept are its gradients in float32 by the rows and by the prompts, and how far
they are from those of the same model in float64: what float32 costs.

Run in this folder, after the others:  python make_grad.py [NAME ...]     all of MODELS, or those named
"""

import base64
import contextlib
import json
import os
import shutil
import sys
import tempfile

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

import make_wide
import record

# name: lengths of sequences, positions with prompts, and the format that weights of blocks are brought to before (None: none).
SHORT, WIDE = ([19, 4], 3), ([9], 2)
MODELS = {
    # every family in floats, and what some of their models have that others lack
    "bloom": (*SHORT, None), "cohere": (*SHORT, None), "falcon": (*SHORT, None), "gemma2": ([36, 4], 3, None),
    "gemma3": ([36, 4], 3, None), "granite": (*SHORT, None), "scaled": (*SHORT, None), "mistral": (*SHORT, None),
    "mixtral": (*SHORT, None), "olmo2": (*SHORT, None), "phi3": ([44, 4], 3, None), "qwen2": (*SHORT, None),
    "qwen3": (*SHORT, None), "qwen3moe": (*SHORT, None), "smollm3": (*SHORT, None),
    "falcon11": (*SHORT, None), "falcon40": (*SHORT, None), "falconrw": (*SHORT, None), "mistralwindow": ([80], 3, None),
    "mixtralwindow": ([28], 3, None), "qwen3moestep": ([28], 3, None), "qwen3biased": (*SHORT, None), "dynamic": ([50], 3, None),
    "yarnfull": ([50], 3, None),
    # every family in a quantised format; bloomq's weights have the values of its GGUF of Q8_0
    "bloomq": (*SHORT, None), "cohereq": (*SHORT, "Q4_0"), "gemma2q": (*SHORT, "Q4_1"), "gemma3q": (*SHORT, "Q5_0"),
    "graniteq": (*SHORT, "Q4_1"), "olmo2q": (*SHORT, "Q5_0"), "phi3q": (*SHORT, "Q4_0"), "smollm3q": (*SHORT, "Q5_0"),
    "llamawide": (*WIDE, "Q5_0"), "mistralwide": (*WIDE, "Q4_1"), "mixtralwide": (*WIDE, "Q4_1"), "qwen2wide": (*WIDE, "Q4_1"),
    "qwen3wide": (*WIDE, "Q4_1"), "falconwide": (*WIDE, "Q4_0"), "qwen3moe@Q4_1": (*SHORT, "Q4_1"),
}


def values(stream, *shape):
    """Numbers from -1 to 1, exact in float32, of the counter of SplitMix64."""
    z = (np.arange(int(np.prod(shape)), dtype=np.uint64) + (np.uint64(stream) << np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return torch.from_numpy((z >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1).reshape(shape)


def ways(name):
    """How the library computes: what float64 can be had of, and Falcon as in the other references."""
    return dict(attn_implementation="sdpa" if name.startswith("falcon") else "eager", experts_implementation="eager")


def load(name):
    if not os.path.exists(f"{name}/weights.json"):
        return AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, **ways(name)).eval()
    with tempfile.TemporaryDirectory() as folder, open(f"{name}/weights.json") as f:
        tensors = {w["name"]: make_wide.draw(i, w) for i, w in enumerate(json.load(f))}
        save_file(tensors, f"{folder}/model.safetensors", metadata={"format": "pt"})
        shutil.copy(f"{name}/config.json", folder)
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **ways(name)).eval()


def layers(model):
    return model.transformer.h if hasattr(model, "transformer") else model.model.layers


def quantise(model, kind):
    """Rounds the matrices of blocks, but not routers, to what a format holds."""
    kind = gguf.GGMLQuantizationType[kind]
    for block in layers(model):
        for name, p in block.named_parameters():
            if p.dim() < 2 or name.endswith("mlp.gate.weight"):
                continue
            rows = p.detach().numpy()
            flat = rows.reshape(-1, rows.shape[-1])
            back = gguf.quants.dequantize(gguf.quants.quantize(flat, kind), kind)
            p.data.copy_(torch.from_numpy(back.reshape(rows.shape)))


@contextlib.contextmanager
def doubles():
    """Makes the library's own casts to float32 casts to float64."""
    single, method = torch.float32, torch.Tensor.float
    torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.Tensor.float = single, method


def gradients(model, seq, length, prompts, hidden, dtype):
    """Gradients of one sequence: by rows, and by prompts of each block."""
    blocks = layers(model)
    x = values(8 * seq + 1, 1, length, hidden).to(dtype).requires_grad_()
    p = (values(8 * seq + 2, len(blocks), prompts, hidden) / 2).to(dtype).requires_grad_()
    d = values(8 * seq + 3, 1, length, hidden).to(dtype)
    last = []

    def read(i):
        def hook(_module, args, kwargs):
            h = x if i == 0 else args[0] if args else kwargs["hidden_states"]
            h = h + torch.nn.functional.pad(p[i], (0, 0, 0, length - prompts)).unsqueeze(0)
            if args:
                return (h,) + args[1:], kwargs
            return args, kwargs | {"hidden_states": h}
        return hook

    hooks = [b.register_forward_pre_hook(read(i), with_kwargs=True) for i, b in enumerate(blocks)]
    hooks.append(blocks[-1].register_forward_hook(lambda _m, _i, o: last.append(o[0] if isinstance(o, tuple) else o)))
    model(input_ids=torch.ones(1, length, dtype=torch.long), use_cache=False)
    for h in hooks:
        h.remove()
    (last[0].reshape(d.shape) * d).sum().backward()
    return x.grad[0], p.grad


def kept(singles, exact):
    """Float32 numbers in base64, and how far they are from exact ones."""
    off = max(float((a.double() - b).abs().max()) for a, b in zip(singles, exact))
    raw = b"".join(a.contiguous().numpy().astype("<f4").tobytes() for a in singles)
    return dict(values=base64.b64encode(raw).decode(), off=off)


def make(name):
    lengths, prompts, kind = MODELS[name]
    folder = name.split("@")[0]
    model = load(folder)
    for p in model.parameters():
        p.requires_grad_(False)
    if kind:
        quantise(model, kind)
    hidden = model.config.get_text_config().hidden_size
    run = lambda dtype: list(zip(*[gradients(model, i, n, prompts, hidden, dtype) for i, n in enumerate(lengths)]))
    rows, table = run(torch.float32)
    model = model.double()
    with doubles():
        rows64, table64 = run(torch.float64)
    data = dict(lengths=lengths, prompts=prompts, quant=(kind or "none").lower(), rows=kept(rows, rows64), table=kept(table, table64))
    record.save(f"{folder}/grad{'.' + kind.lower() if '@' in name else ''}.json.gz", data)
    greatest = max(float(r.abs().max()) for r in rows64)
    print(f"{name}: off by {data['rows']['off'] / greatest:.2g} and {data['table']['off'] / greatest:.2g} of {greatest:.3g}")


if __name__ == "__main__":
    torch.manual_seed(0)
    for name in MODELS:
        if name in sys.argv[1:] or not sys.argv[1:]:
            make(name)
