"""Records what the transformers library generates with TOY by beam search and under logits processors: toy_searches.json.

End ids are chosen among ids that TOY likes to generate, so that answers end early. A case that float32 and float64 answer
differently is left out: it hangs on the last bits. Packages: model/testdata/requirements.txt. Needs toy/ of make_toy.py.
Run in this folder:  python make_toy_searches.py
"""

import json
import random

import torch
from transformers import AutoModelForCausalLM

SEED, CASES = 3, 48


def main():
    rng = random.Random(SEED)
    single = AutoModelForCausalLM.from_pretrained("toy", dtype=torch.float32).eval()
    double = AutoModelForCausalLM.from_pretrained("toy", dtype=torch.float64).eval()
    prompts = json.load(open("toy/ref.json"))["prompts"]
    out = []
    while len(out) < CASES:
        p = rng.choice(prompts)
        likely = p["new"][3:30]
        c = {"max_new_tokens": rng.choice([1, 4, 12, 24]), "eos_token_id": rng.choice([[2], rng.sample(likely, 1), rng.sample(likely, 2)])}
        if rng.random() < 0.75:
            c["num_beams"] = rng.choice([2, 3, 5, 8])
            c["num_return_sequences"] = rng.randrange(1, c["num_beams"] + 1)
            c["length_penalty"] = rng.choice([-1.0, 0.0, 1.0, 1.0, 2.0])
            c["early_stopping"] = rng.choice([True, False, "never"])
        if "num_beams" not in c or rng.random() < 0.3:
            c["repetition_penalty"] = rng.choice([1.0, 1.3])
            c["no_repeat_ngram_size"] = rng.choice([0, 2, 3])
            c["min_new_tokens"] = rng.choice([0, 6]) if c["max_new_tokens"] > 6 else 0
            c["bad_words_ids"] = [[i] for i in rng.sample(likely, 2)] + [rng.sample(likely, 2)]
        c["eos_token_id"] = sorted(set(c["eos_token_id"]))
        answers = []
        for model in (single, double):
            ids = model.generate(torch.tensor([p["ids"]]), do_sample=False, pad_token_id=384 + 1, **c)
            answers.append([[i for i in row[len(p["ids"]):] if i != 385] for row in ids.tolist()])
        if answers[0] == answers[1]:
            out.append({"prompt": p["ids"], "params": c, "answers": answers[0]})
    with open("toy_searches.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "\n]\n")


if __name__ == "__main__":
    main()
