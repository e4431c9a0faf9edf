"""Records diverse beam searches (num_beam_groups) of transformers 4.49.0 over a model that is two small tables: groups.json.

Later releases have moved them out of the library. The logits after id i at position p are (W[i] + P[p]) / 4096. Packages:
transformers==4.49.0 and any torch. Run in this folder:  python make_groups.py
"""

import json
import random

import torch
from make_beams import POSITIONS, VOCAB, Tables
from transformers import BeamSearchScorer, PretrainedConfig, __version__

CASES, SEED, HAIR = 240, 11, 1e-5


class Close(Exception):
    pass


def process(self, input_ids, next_scores, *rest, **named):
    """The library's, for scores of which none could fall either way."""
    scores = next_scores[0].tolist()
    if any(a - b < HAIR for a, b in zip(scores, scores[1:])):
        raise Close
    return theirs(self, input_ids, next_scores, *rest, **named)


theirs, BeamSearchScorer.process = BeamSearchScorer.process, process


def parameters(rng):
    groups = rng.randrange(2, 5)
    beams = groups * rng.randrange(1, 4)
    c = {"num_beams": beams, "num_beam_groups": groups, "diversity_penalty": rng.choice([0.1, 0.5, 1.0, 2.5]),
         "num_return_sequences": rng.randrange(1, beams + 1), "max_new_tokens": rng.randrange(1, 14),
         "length_penalty": rng.choice([-1.0, 0.0, 0.5, 1.0, 1.0, 2.0]), "early_stopping": rng.choice([True, False, "never"]),
         "eos_token_id": rng.choice([[2], [2, 5], [2, 5, 9]])}
    for name, values in [("repetition_penalty", [0.8, 1.4]), ("no_repeat_ngram_size", [1, 2, 3]), ("min_new_tokens", [1, 2, 4]),
                         ("bad_words_ids", [[[3], [7, 1]], [[4, 4], [11]]])]:
        if rng.random() < 0.2:
            c[name] = rng.choice(values)
    return c


def main():
    assert __version__ == "4.49.0", __version__
    rng = random.Random(SEED)
    units = lambda rows: [[round(rng.gauss(0, 1.4) * 4096) for _ in range(VOCAB)] for _ in range(rows)]
    w, p = units(VOCAB), units(POSITIONS)
    model = Tables(PretrainedConfig(vocab_size=VOCAB, is_encoder_decoder=False), torch.tensor(w) / 4096, torch.tensor(p) / 4096).eval()
    cases = []
    while len(cases) < CASES:
        prompt, c = [rng.randrange(VOCAB) for _ in range(rng.randrange(1, 8))], parameters(rng)
        end = c["eos_token_id"]
        try:
            out = model.generate(torch.tensor([prompt]), do_sample=False, use_cache=False, pad_token_id=end[0], return_dict_in_generate=True,
                                 output_scores=True, **c)
        except Close:
            continue
        scores = sorted(out.sequences_scores.tolist())
        if any(b - a < 1e-4 for a, b in zip(scores, scores[1:])) or scores[0] < -1e6:
            continue  # a tie may fall either way, and what was not possible has no score
        answers = []
        for row in out.sequences.tolist():  # what ends with an end id, whichever, has the first of them, and pads behind it
            ids = row[len(prompt):]
            while len(ids) > 1 and ids[-1] == end[0] and ids[-2] == end[0]:
                ids.pop()
            answers.append(ids)
        cases.append({"prompt": prompt, "params": c, "answers": answers, "scores": [float(f"{v:.6g}") for v in out.sequences_scores.tolist()]})
    with open("groups.json", "w") as f:
        f.write('{"w":' + json.dumps(w, separators=(",", ":")) + ',\n"p":' + json.dumps(p, separators=(",", ":")) + ',\n"cases":[\n')
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
