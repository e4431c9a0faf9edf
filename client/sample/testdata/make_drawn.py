"""Records beam searches of the transformers library that draw (num_beams with do_sample) over the model of make_beams.py:
drawn.json.

torch.multinomial draws without replacement by a race, whose result is that of drawing one after the other in proportion to what
is left. It is put aside for exactly that, with numbers that are recorded: everything else is the library's. A case in which a
number falls within a hair of where another way begins, or two scores are close, is left out. Packages:
model/testdata/requirements.txt. Run in this folder:  python make_drawn.py
"""

import json
import random

import torch
from make_beams import POSITIONS, VOCAB, Tables
from transformers import PreTrainedConfig

CASES, SEED, HAIR = 220, 21, 1e-5


class Close(Exception):
    pass


class Draws:
    """Stands for torch.multinomial, and remembers its numbers."""

    def __init__(self, rng):
        self.rng, self.numbers = rng, []

    def __call__(self, weights, num_samples, **_):
        left = weights[0].double().tolist()
        out = []
        for _ in range(num_samples):
            total = sum(left)
            if total == 0:  # nothing more is possible: which others come behind makes no difference
                out += [i for i in range(len(left)) if i not in out][: num_samples - len(out)]
                break
            u = self.rng.randrange(1, 10**6) / 10**6
            self.numbers.append(u)
            at = 0.0
            for i, w in enumerate(left):
                if w > 0 and abs(u * total - at) < HAIR * total:
                    raise Close
                at += w
                if w > 0 and u * total < at:
                    out.append(i)
                    left[i] = 0.0
                    break
            else:
                raise Close
        return torch.tensor([out])


def parameters(rng):
    beams = rng.randrange(2, 5)
    c = {"num_beams": beams, "num_return_sequences": rng.randrange(1, beams + 1), "max_new_tokens": rng.randrange(1, 12),
         "length_penalty": rng.choice([-1.0, 0.0, 1.0, 1.0, 2.0]), "early_stopping": rng.choice([True, False, "never"]),
         "eos_token_id": rng.choice([[2], [2, 5], [2, 5, 9]])}
    for name, chance, values in [("repetition_penalty", 0.2, [0.8, 1.4]), ("no_repeat_ngram_size", 0.2, [1, 2]), ("min_new_tokens", 0.2, [1, 4]),
                                 ("temperature", 0.6, [0.4, 0.7, 1.6]), ("top_h", 0.2, [0.4, 0.8]), ("top_k", 0.3, [1, 2, 6, 12]),
                                 ("top_p", 0.3, [0.1, 0.5, 0.9]), ("min_p", 0.25, [0.05, 0.3, 0.95]), ("typical_p", 0.25, [0.1, 0.5, 0.9]),
                                 ("epsilon_cutoff", 0.2, [0.02, 0.1, 0.4]), ("eta_cutoff", 0.2, [0.02, 0.1, 0.4])]:
        if rng.random() < chance:
            c[name] = rng.choice(values)
    return c


def main():
    rng = random.Random(SEED)
    units = lambda rows: [[round(rng.gauss(0, 1.4) * 4096) for _ in range(VOCAB)] for _ in range(rows)]
    w, p = units(VOCAB), units(POSITIONS)
    config = PreTrainedConfig(vocab_size=VOCAB, is_encoder_decoder=False)
    model = Tables(config, torch.tensor(w) / 4096, torch.tensor(p) / 4096).eval()
    cases = []
    while len(cases) < CASES:
        prompt, c = [rng.randrange(VOCAB) for _ in range(rng.randrange(1, 8))], parameters(rng)
        draws = Draws(rng)
        torch.multinomial = draws
        try:
            out = model.generate(torch.tensor([prompt]), max_length=None, do_sample=True, use_cache=False, pad_token_id=VOCAB,
                                 return_dict_in_generate=True, output_scores=True, **({"top_k": 0} | c))
        except Close:
            continue
        answers = [[i for i in row[len(prompt):] if i != VOCAB] for row in out.sequences.tolist()]
        scores = sorted(out.sequences_scores.tolist())
        if any(b - a < 1e-4 for a, b in zip(scores, scores[1:])) or scores[0] < -1e6:
            continue  # a tie may fall either way, and what was not possible has no score
        cases.append({"prompt": prompt, "params": c, "numbers": draws.numbers, "answers": answers,
                      "scores": [float(f"{v:.6g}") for v in out.sequences_scores.tolist()]})
    with open("drawn.json", "w") as f:
        f.write('{"w":' + json.dumps(w, separators=(",", ":")) + ',\n"p":' + json.dumps(p, separators=(",", ":")) + ',\n"cases":[\n')
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
