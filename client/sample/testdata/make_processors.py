"""Records what the transformers library makes of random logits, processors.json, and the names of
its settings, generation_config.json.

The list of processors and its order is the library's own (_get_logits_processor); only OpenAI's presence and frequency
penalties are added, by the formula of OpenAI's documentation. A case whose result hangs on the last bits of float32 is
left out. Packages: model/testdata/requirements.txt. Run in this folder:  python make_processors.py
"""

import json
import random

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, LogitsProcessor, LogitsProcessorList

VOCAB, CASES, SEED = 32, 160, 11
LATER, LATER_SEED = 160, 12  # cases with what later versions added
EOS = [2, 5]


class OpenAIPenalty(LogitsProcessor):
    def __init__(self, start, frequency, presence):
        self.start, self.frequency, self.presence = start, frequency, presence

    def __call__(self, input_ids, scores):
        scores = scores.clone()
        for row, ids in enumerate(input_ids[:, self.start:].tolist()):
            for i in set(ids):
                scores[row, i] = scores[row, i] - self.frequency * ids.count(i) - self.presence
        return scores


def draw(rng):
    """One set of parameters, by the names of the library and of OpenAI."""
    start, new = rng.randrange(1, 8), rng.randrange(0, 10)
    history = [rng.randrange(10) for _ in range(start + new)]
    p = {}
    if rng.random() < 0.4:
        p["repetition_penalty"] = rng.choice([0.7, 1.2, 1.5, 3.0])
    if rng.random() < 0.3:
        p["presence_penalty"] = rng.choice([-1.5, 0.25, 1.0])
    if rng.random() < 0.3:
        p["frequency_penalty"] = rng.choice([-0.5, 0.5, 2.0])
    if rng.random() < 0.4:
        p["no_repeat_ngram_size"] = rng.randrange(1, 5)
    if rng.random() < 0.4:
        p["bad_words_ids"] = [[rng.randrange(10) for _ in range(rng.randrange(1, 4))] for _ in range(4)] + [[2], history[-2:] + [9]]
    if rng.random() < 0.3:
        p["min_new_tokens"] = rng.randrange(1, 10)
    if rng.random() < 0.2:
        p["logit_bias"] = [[i, rng.choice([-100.0, -2.5, 3.0])] for i in sorted(rng.sample(range(VOCAB), 3))]
    if rng.random() < 0.6:
        p["do_sample"] = True
        for name, chance, values in [("temperature", 0.6, [0.3, 0.7, 1.6]), ("top_k", 0.4, [1, 3, 10]), ("top_p", 0.5, [0.2, 0.6, 0.95]),
                                     ("min_p", 0.3, [0.02, 0.2, 0.9]), ("typical_p", 0.4, [0.2, 0.5, 0.9])]:
            if rng.random() < chance:
                p[name] = rng.choice(values)
    return start, history, p


def draw_later(rng):
    """As draw, with cutoffs by probability and entropy, ends that come nearer, and ids that never come."""
    start, history, p = draw(rng)
    if rng.random() < 0.4:
        p["exponential_decay_length_penalty"] = [rng.randrange(0, 6), rng.choice([0.9, 1.05, 1.5])]
        p.pop("min_new_tokens", None)  # the library makes NaN of minus infinity there
        p["bad_words_ids"] = [w for w in p.get("bad_words_ids", []) if w[-1] not in EOS] or [[31, 30]]
    if rng.random() < 0.3:
        p["suppress_tokens"] = sorted(rng.sample(range(VOCAB), 4))
    if rng.random() < 0.3:
        p["begin_suppress_tokens"] = sorted(rng.sample(range(VOCAB), 4))
    if rng.random() < 0.3:
        runs = [history[-1:] + [rng.randrange(VOCAB)], [0, 1, 2], [rng.randrange(VOCAB)], history[-2:] + [7], [3, 7], history + [9, 9]]
        p["sequence_bias"] = [[r, rng.choice([-4.25, -0.1, 2.3])] for r in runs]
        p.pop("logit_bias", None)  # the library has one field for both
    if rng.random() < 0.15:
        p["forced_eos_token_id"], p["max_new_tokens"] = EOS, rng.randrange(1, 11)
        for name in ("suppress_tokens", "begin_suppress_tokens", "repetition_penalty", "min_new_tokens"):
            p.pop(name, None)
    if p.get("do_sample"):
        for name, values in [("top_h", [0.2, 0.5, 0.9]), ("epsilon_cutoff", [0.01, 0.05, 0.3]), ("eta_cutoff", [0.01, 0.1, 0.4])]:
            if rng.random() < 0.4:
                p[name] = rng.choice(values)
    return start, history, p


def processed(model, start, history, p, dtype, logits):
    own = {"presence_penalty", "frequency_penalty", "logit_bias"}
    config = GenerationConfig(**{"do_sample": False, "top_k": 0, **{k: v for k, v in p.items() if k not in own}})
    if "logit_bias" in p:
        config.sequence_bias = [[[i], v] for i, v in p["logit_bias"]]
    if "max_new_tokens" in p:
        config.max_length = start + p["max_new_tokens"]
    config._eos_token_tensor = torch.tensor(EOS)
    penalty = LogitsProcessorList([OpenAIPenalty(start, p.get("frequency_penalty", 0.0), p.get("presence_penalty", 0.0))])
    ids = torch.tensor([history])
    chain = model._get_logits_processor(config, input_ids_seq_length=start, logits_processor=penalty, device="cpu",
                                        model_kwargs={"attention_mask": torch.ones(1, start, dtype=torch.long)})
    # The library adds custom processors behind its own. Ours come before the bans, which makes no difference:
    # minus infinity stays what it is.
    return chain(ids, torch.tensor([logits], dtype=dtype))[0]


def main():
    torch.manual_seed(SEED)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                         num_attention_heads=1))
    out = cases(model, random.Random(SEED), draw, CASES) + cases(model, random.Random(LATER_SEED), draw_later, LATER)
    with open("processors.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "\n]\n")
    with open("generation_config.json", "w") as f:
        names = sorted(n for n in GenerationConfig().to_dict() if not n.startswith("_"))
        f.write(json.dumps(names, separators=(",\n", ":")) + "\n")


def cases(model, rng, draw, count):
    out = []
    while len(out) < count:
        start, history, p = draw(rng)
        units = [round(rng.gauss(0, 2) * 32) for _ in range(VOCAB)]  # logits in 32nds
        logits = [u / 32 for u in units]
        single = processed(model, start, history, p, torch.float32, logits)
        double = processed(model, start, history, p, torch.float64, logits)
        if not torch.equal(single.isinf(), double.isinf()) or single.isinf().all():
            continue
        case = {"start": start, "history": history, "params": p, "logits": units}
        if p.get("do_sample"):
            shares = single.softmax(-1)
            case["shares"] = {i: float(f"{shares[i].item():.7g}") for i in range(VOCAB) if not single[i].isinf()}
        else:
            case["scores"] = [None if v.isinf() else v.item() for v in single]
        out.append(case)
    return out


if __name__ == "__main__":
    main()
