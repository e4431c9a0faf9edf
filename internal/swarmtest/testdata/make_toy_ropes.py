"""Records what the transformers library makes of one full forward of TOY with rotations that depend on the length:
toy_ropes.json. Packages: model/testdata/requirements.txt. Needs toy/ of make_toy.py.
Run in this folder:  python make_toy_ropes.py
"""

import json

import torch
from transformers import AutoConfig, AutoModelForCausalLM

CASES = [
    (64, {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}),
    (64, {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 64, "factor": 4.0,
          "short_factor": [1.0 + i / 8 for i in range(8)], "long_factor": [1.5 + i / 2 for i in range(8)]}),
]


def main():
    prompts = json.load(open("toy/ref.json"))["prompts"]
    longest = [i for p in prompts for i in p["ids"] + p["new"]]
    out = []
    for context, rope in CASES:
        for length in (40, 150):
            config = AutoConfig.from_pretrained("toy")
            config.max_position_embeddings = context if rope["rope_type"] == "dynamic" else 256
            config.rope_parameters = dict(rope)
            model = AutoModelForCausalLM.from_pretrained("toy", config=config, dtype=torch.float32).eval()
            ids = longest[:length]
            with torch.no_grad():
                logits = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
            logprobs = [float(f"{logits[i, ids[i + 1]].item():.8g}") for i in range(length - 1)]
            out.append({"max_position_embeddings": config.max_position_embeddings, "rope_parameters": rope, "ids": ids, "logprobs": logprobs})
    with open("toy_ropes.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "\n]\n")


if __name__ == "__main__":
    main()
