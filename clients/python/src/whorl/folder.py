"""Folders of trained prompts, as ``whorl tune`` writes them: PEFT's prompt tuning, and deep prompts beside.

``whorl chat MODEL --prompt-tuning DIR`` and ``whorl gateway --prompt-tuning DIR`` take them.
"""

import json
import os
import struct

import numpy as np


def save(path, layers, shallow, deep=None, score=None, labels=None):
    """Writes the tables of a model: shallow [prompt, hidden], deep [blocks, prompt, hidden], score
    [labels, hidden]."""
    tensors = {"prompt_embeddings": shallow}
    if deep is not None:
        tensors["whorl.deep_prompts"] = deep
    texts = {"format": "pt", "whorl.model": layers.uid}
    base = layers.name
    if layers.adapter:
        texts["whorl.adapter"] = layers.adapter
        base = base.removesuffix(":" + layers.adapter.rpartition("@")[0])
    if score is not None:
        tensors["base_model.score.weight"] = score
        texts["whorl.labels"] = json.dumps(labels or [str(i) for i in range(len(score))])
    head, at, blobs = {"__metadata__": texts}, 0, []
    for name in sorted(tensors):
        a = np.ascontiguousarray(tensors[name], "<f4")
        head[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
        blobs.append(a.tobytes())
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    config = {
        "peft_type": "PROMPT_TUNING", "task_type": "CAUSAL_LM" if score is None else "SEQ_CLS", "base_model_name_or_path": base, "revision": None, "inference_mode": True,
        "num_virtual_tokens": len(shallow), "token_dim": layers.hidden, "num_transformer_submodules": 1, "num_attention_heads": 0, "num_layers": layers.blocks,
        "prompt_tuning_init": "RANDOM", "prompt_tuning_init_text": None, "tokenizer_name_or_path": None, "auto_mapping": None,
    }
    os.makedirs(path, exist_ok=True)
    for name, data in (("adapter_model.safetensors", struct.pack("<Q", len(text)) + text + b"".join(blobs)), ("adapter_config.json", json.dumps(config, indent=2).encode() + b"\n")):
        part = os.path.join(path, name + ".part")
        with open(part, "wb") as f:
            f.write(data)
        os.replace(part, os.path.join(path, name))
