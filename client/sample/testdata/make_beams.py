"""Records beam searches of the transformers library over a model that is two small tables: beams.json.

The logits after id i at position p are (W[i] + P[p]) / 4096. Packages: model/testdata/requirements.txt.
Run in this folder:  python make_beams.py
"""

import json
import random

import torch
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

VOCAB, POSITIONS, CASES, SEED = 20, 24, 220, 5


class Tables(PreTrainedModel, GenerationMixin):
    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, config, w, p):
        super().__init__(config)
        self.w, self.p = torch.nn.Parameter(w), torch.nn.Parameter(p)

    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        return {"input_ids": input_ids}

    def forward(self, input_ids, **kwargs):
        return CausalLMOutput(logits=self.w[input_ids] + self.p[: input_ids.shape[1]])


def main():
    rng = random.Random(SEED)
    units = lambda rows: [[round(rng.gauss(0, 1.4) * 4096) for _ in range(VOCAB)] for _ in range(rows)]
    w, p = units(VOCAB), units(POSITIONS)
    config = PretrainedConfig(vocab_size=VOCAB, is_encoder_decoder=False)
    model = Tables(config, torch.tensor(w) / 4096, torch.tensor(p) / 4096).eval()
    cases = []
    while len(cases) < CASES:
        prompt = [rng.randrange(VOCAB) for _ in range(rng.randrange(1, 8))]
        beams = rng.randrange(2, 6)
        c = {"num_beams": beams, "num_return_sequences": rng.randrange(1, beams + 1), "max_new_tokens": rng.randrange(1, 14),
             "length_penalty": rng.choice([-1.0, 0.0, 0.5, 1.0, 1.0, 2.0]), "early_stopping": rng.choice([True, False, "never"]),
             "eos_token_id": rng.choice([[2], [2, 5], [2, 5, 9]])}
        if rng.random() < 0.25:
            c["repetition_penalty"] = rng.choice([0.8, 1.4])
        if rng.random() < 0.25:
            c["no_repeat_ngram_size"] = rng.randrange(1, 4)
        if rng.random() < 0.25:
            c["bad_words_ids"] = [[rng.randrange(VOCAB) for _ in range(rng.randrange(1, 3))] for _ in range(3)]
        if rng.random() < 0.25:
            c["min_new_tokens"] = rng.randrange(1, 5)
        out = model.generate(torch.tensor([prompt]), max_length=None, do_sample=False, use_cache=False, pad_token_id=VOCAB, return_dict_in_generate=True,
                             output_scores=True, **c)
        answers = [[i for i in row[len(prompt):] if i != VOCAB] for row in out.sequences.tolist()]
        scores = sorted(out.sequences_scores.tolist())
        if any(b - a < 1e-5 for a, b in zip(scores, scores[1:])):
            continue  # a tie may fall either way
        cases.append({"prompt": prompt, "params": c, "answers": answers,
                      "scores": [float(f"{v:.6g}") for v in out.sequences_scores.tolist()]})
    with open("beams.json", "w") as f:
        f.write('{"w":' + json.dumps(w, separators=(",", ":")) + ',\n"p":' + json.dumps(p, separators=(",", ":")) + ',\n"cases":[\n')
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
