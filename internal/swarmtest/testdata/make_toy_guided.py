"""Records what the transformers library generates with guidance_scale and negative_prompt_ids, with TOY and a small BLOOM:
toy_guided.json and bloom_guided.json.

A case that float32 and float64 answer differently is left out: it hangs on the last bits. Packages:
model/testdata/requirements.txt. Needs toy/ of make_toy.py and model/testdata/bloom of make_bloom.py.
Run in this folder:  python make_toy_guided.py
"""

import gzip
import json
import random

import torch
from make_toy_searches import BLOOM
from transformers import AutoModelForCausalLM

SEED, CASES = 17, 24


def record(path, folder, prompts):
    rng = random.Random(SEED)
    single = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    double = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    out = []
    while len(out) < CASES:
        p, other = rng.choice(prompts), rng.choice(prompts)["ids"]
        likely = p["new"][3:30]
        c = {"max_new_tokens": rng.choice([1, 4, 16]), "guidance_scale": rng.choice([-0.5, 0.0, 0.5, 1.5, 3.0]),
             "eos_token_id": rng.choice([[2], rng.sample(likely, 1)])}
        if rng.random() < 0.4:
            c["repetition_penalty"], c["no_repeat_ngram_size"] = rng.choice([1.0, 1.3]), rng.choice([0, 2, 3])
        if rng.random() < 0.7:
            c["negative_prompt_ids"] = other[: rng.randrange(1, len(other) + 1)]
        answers = []
        for model in (single, double):
            given = {k: torch.tensor([v]) if k == "negative_prompt_ids" else v for k, v in c.items()}
            ids = model.generate(torch.tensor([p["ids"]]), do_sample=False, pad_token_id=single.config.vocab_size + 1, **given)
            answers.append(ids[0].tolist()[len(p["ids"]):])
        if answers[0] == answers[1]:
            out.append({"prompt": p["ids"], "params": c, "answers": answers[:1]})
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "\n]\n")


def main():
    with open("toy/ref.json") as f:
        record("toy_guided.json", "toy", json.load(f)["prompts"])
    with gzip.open(f"{BLOOM}/ref.json.gz") as f:
        prompts = json.load(f)["prompts"]
    record("bloom_guided.json", BLOOM, [p for p in prompts if len(set(p["new"][3:])) > 4])


if __name__ == "__main__":
    main()
