"""Makes tiny LoRA adapters with the PEFT library, for the tiny models of ../../testdata and for TOY, and records what the
library computes with each of them.

Run in this folder:  python make_adapters.py [NAME ...]     needs peft==0.21.2 beside ../../testdata/requirements.txt
"""

import json
import os
import shutil
import sys

import gguf
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

sys.path.insert(0, "../../testdata")
import make_tiny  # noqa: E402
import record  # noqa: E402

TOY = "../../../internal/swarmtest/testdata/toy"
TINY = "../../testdata"
NEW = 16  # ids of greedy decoding

# name: base model, type that A and B are stored in, and what LoraConfig is told. The seed is the place in the list: add at
# the end. B is random: an adapter with B = 0, as training begins, would hide every mistake.
ADAPTERS = {
    "toy-list": (TOY, torch.float32, dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
    "toy-regex": (TOY, torch.float32, dict(
        r=3, lora_alpha=4, use_rslora=True, target_modules=r".*\.(mlp\.(gate|up|down)_proj|self_attn\.[ko]_proj)")),
    "scaled-patterns": (f"{TINY}/scaled", torch.bfloat16, dict(
        r=2, lora_alpha=3, target_modules="all-linear",
        rank_pattern={r"^.*layers\.1\.mlp\.down_proj": 5, "down_proj": 1, "self_attn.k_proj": 3},
        alpha_pattern={"^model.layers.2.self_attn.q_proj": 9, "o_proj": 1})),
    "qwen2-layers": (f"{TINY}/qwen2", torch.float16, dict(
        r=4, lora_alpha=4, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        layers_to_transform=[1], layers_pattern="layers")),
    "quants-all": (f"{TINY}/quants/model.gguf", torch.float32, dict(
        r=2, lora_alpha=4, target_modules="all-linear", exclude_modules=["up_proj"])),
    # fused by key/value head, no gate; biases
    "bloom-fused": (f"{TINY}/bloom", torch.float32, dict(
        r=3, lora_alpha=4, target_modules=["query_key_value", "dense_h_to_4h", "dense_4h_to_h"])),
    # parallel, with two norms; several key/value heads
    "falcon40-all": (f"{TINY}/falcon40", torch.float32, dict(r=2, lora_alpha=4, target_modules="all-linear")),
    # fused row by row
    "phi3-all": (f"{TINY}/phi3", torch.float32, dict(r=2, lora_alpha=4, target_modules="all-linear")),
    # outputs are normalised before they are added
    "gemma2-all": (f"{TINY}/gemma2", torch.float32, dict(r=2, lora_alpha=64, target_modules="all-linear")),
    # beside experts
    "mixtral-attention": (f"{TINY}/mixtral", torch.float32, dict(
        r=2, lora_alpha=4, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])),
}


def load(path, **ways):
    if not path.endswith(".gguf"):
        if "gemma" in path:
            ways["attn_implementation"] = "eager"  # the one that knows soft caps
        return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, **ways).eval()
    spec = make_tiny.MODELS["quants"]
    config = LlamaConfig(vocab_size=96, bos_token_id=1, eos_token_id=2, **spec["config"])
    model = LlamaForCausalLM(config).eval()
    names = {make_tiny.gguf_name(n): n for n, _ in model.named_parameters()}
    weights = {}
    for t in gguf.GGUFReader(path).tensors:
        data = gguf.dequantize(t.data, t.tensor_type).reshape([int(n) for n in reversed(t.shape)])
        name = names[t.name]
        if "q_proj" in name or "k_proj" in name:
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            data = make_tiny.unpermute(data, heads)
        weights[name] = torch.from_numpy(data.copy())
    make_tiny.set_weights(model, weights)
    return model


def save(name, path, dtype, settings):
    model = get_peft_model(load(path), LoraConfig(task_type="CAUSAL_LM", **settings))
    for key, p in model.named_parameters():
        if "lora_A" in key:
            p.copy_((torch.randn_like(p) / p.shape[1] ** 0.5).to(dtype))
        elif "lora_B" in key:
            p.copy_((torch.randn_like(p) * 0.7 / p.shape[1] ** 0.5).to(dtype))
    for key, p in model.named_parameters():
        if "lora_" in key:
            p.data = p.data.to(dtype)
    shutil.rmtree(name, ignore_errors=True)
    model.save_pretrained(name, safe_serialization=True)
    os.remove(f"{name}/README.md")
    with open(f"{name}/adapter_config.json") as f:
        config = json.load(f)
    config["base_model_name_or_path"] = os.path.basename(path.removesuffix("/model.gguf"))
    if isinstance(config["target_modules"], list):  # a set, in the library
        config["target_modules"].sort()
    if settings["target_modules"] == "all-linear" and "exclude_modules" in settings:
        config["target_modules"] = "all-linear"  # the library writes the names out; it reads both
    with open(f"{name}/adapter_config.json", "w") as f:
        json.dump(config, f, indent=1)


def measure(name, path, seed):
    base = load(path)
    PeftModel.from_pretrained(base, name).eval()  # puts the adapter into base
    rng = torch.Generator().manual_seed(seed)
    longest = 24 if "phi3" in path else 40  # that one's rotation changes while the library goes past 40 positions
    lengths = [min(n, longest) for n in [1, 2, 40] + torch.randint(3, 30, (17,), generator=rng).tolist()]
    prompts = [[int(v) for v in torch.randint(3, base.config.vocab_size, (n,), generator=rng)] for n in lengths]
    ref = {"prompts": []}
    for ids in prompts:
        new, margins = record.greedy(base, ids, NEW)
        ref["prompts"].append({"ids": ids, "new": new, "margins": margins})
    one = prompts[3][:6]
    ref["blocks"] = {"ids": one, "rows": record.blocks(base, one), "logits": record.logits(base, one)}
    plain = load(path)
    changed = sum(record.greedy(plain, p["ids"], NEW)[0] != p["new"] for p in ref["prompts"])
    print(f"{name}: the adapter changes {changed} of {len(prompts)} answers")
    return ref


if __name__ == "__main__":
    record.prepare()
    for i, (name, (path, dtype, settings)) in enumerate(ADAPTERS.items()):
        if name not in sys.argv[1:] and sys.argv[1:]:
            continue
        torch.manual_seed(500 + i)
        save(name, path, dtype, settings)
        record.save(f"{name}/ref.json.gz", measure(name, path, 500 + i))
