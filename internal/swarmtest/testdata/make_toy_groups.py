"""Records diverse beam searches (num_beam_groups) of transformers 4.49.0 with TOY: toy_groups.json.

A case that float32 and float64 answer differently is left out: it hangs on the last bits. Packages: transformers==4.49.0 and any
torch. Run in this folder:  python make_toy_groups.py
"""

import json
import random

import torch
from transformers import AutoModelForCausalLM, __version__

SEED, CASES = 7, 40


def main():
    assert __version__ == "4.49.0", __version__
    rng = random.Random(SEED)
    models = [AutoModelForCausalLM.from_pretrained("toy", torch_dtype=t).eval() for t in (torch.float32, torch.float64)]
    with open("toy/ref.json") as f:
        prompts = json.load(f)["prompts"]
    out = []
    while len(out) < CASES:
        p, groups = rng.choice(prompts), rng.choice([2, 2, 3, 4])
        end = rng.choice([2, rng.choice(p["new"][3:30])])
        c = {"max_new_tokens": rng.choice([1, 4, 8, 16]), "eos_token_id": [end], "num_beams": groups * rng.randrange(1, 3), "num_beam_groups": groups,
             "diversity_penalty": rng.choice([0.2, 0.5, 1.0, 3.0]), "length_penalty": rng.choice([-1.0, 0.0, 1.0, 1.0, 2.0]),
             "early_stopping": rng.choice([True, False, "never"])}
        c["num_return_sequences"] = rng.randrange(1, c["num_beams"] + 1)
        if rng.random() < 0.3:
            c["repetition_penalty"], c["no_repeat_ngram_size"] = 1.3, rng.choice([2, 3])
        answers = []
        for model in models:
            rows = model.generate(torch.tensor([p["ids"]]), do_sample=False, pad_token_id=end, **c)[:, len(p["ids"]):].tolist()
            answers.append([row[: row.index(end) + 1] if end in row else row for row in rows])
        if answers[0] == answers[1]:
            out.append({"prompt": p["ids"], "params": c, "answers": answers[0]})
    with open("toy_groups.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "\n]\n")


if __name__ == "__main__":
    main()
