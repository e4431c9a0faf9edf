"""Records what the transformers library generates by beam search and under logits processors, with TOY and a small BLOOM:
toy_searches.json and bloom_searches.json.

End ids are chosen among ids that the model likes to generate, so that answers end early. A case that float32 and float64
answer differently is left out: it hangs on the last bits. Packages: model/testdata/requirements.txt. Needs toy/ of make_toy.py
and model/testdata/bloom of make_bloom.py.
Run in this folder:  python make_toy_searches.py
"""

import gzip
import json
import random

import torch
from transformers import AutoModelForCausalLM

SEED, CASES = 3, 48


BLOOM = "../../../model/testdata/bloom"


def record(path, folder, prompts):
    rng = random.Random(SEED)
    single = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    double = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    pad = single.config.vocab_size + 1
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
            ids = model.generate(torch.tensor([p["ids"]]), do_sample=False, pad_token_id=pad, **c)
            answers.append([[i for i in row[len(p["ids"]):] if i != pad] for row in ids.tolist()])
        if answers[0] == answers[1]:
            out.append({"prompt": p["ids"], "params": c, "answers": answers[0]})
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "\n]\n")


def main():
    with open("toy/ref.json") as f:
        record("toy_searches.json", "toy", json.load(f)["prompts"])
    with gzip.open(f"{BLOOM}/ref.json.gz") as f:
        prompts = json.load(f)["prompts"]
    # not those that go round in circles: processors and end ids have nothing to choose from there
    record("bloom_searches.json", BLOOM, [p for p in prompts if len(set(p["new"][3:])) > 4])


if __name__ == "__main__":
    main()
