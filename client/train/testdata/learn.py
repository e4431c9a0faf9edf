"""Shows that what whorl tune learns is real, and what the PEFT library learns from the same table and order.

    pip install torch==2.15.0 transformers==5.24.0 peft==0.21.2 gguf==0.19.0
    python learn.py --model SmolLM2-135M-Instruct.Q4_1.gguf --whorl bin/whorl --out DIR [data frozen shallow deep peft table]

The task: say " yes" after a sentence about a fruit and " no" after one about a tool, which nothing in a sentence asks for. 500
sentences to learn from and 200 others that are held out, half of them of each kind. Steps, all of them unless some are named:
data writes them; frozen asks the model without prompts; shallow and deep are `whorl tune --local`; peft trains the library's
prompt tuning on the dequantised weights of the same file, in float32, from the same first table, in the same order, with the same
optimizer; table compares. Each leaves a file in DIR, so a run that was interrupted need not begin anew.
"""

import argparse
import json
import math
import pathlib
import random
import subprocess
import time

TOKENS, EPOCHS, BATCH, RATE, SEED = 8, 3, 20, 0.02, 16
SETS = {
    " yes": "lemon apple pear plum grape melon peach cherry orange mango banana lime".split(),
    " no": "hammer saw drill wrench chisel axe shovel ladder rake needle knife broom".split(),
}
NAMES = "Anna Ben Clara David Emma Frank Grace Henry Iris Jack Karen Leo Mary Nick Oscar Paul Rosa Sam Tina Victor".split()
VERBS = "bought found lost saw drew described sold hid".split()


def data(out):
    rng, seen, lines = random.Random(SEED), set(), []
    while len(lines) < 700:
        answer = (" yes", " no")[len(lines) % 2]
        word = rng.choice(SETS[answer])
        text = f"{rng.choice(NAMES)} {rng.choice(VERBS)} {'an' if word[0] in 'aeiou' else 'a'} {word}:"
        if text not in seen:
            seen.add(text)
            lines.append(json.dumps({"prompt": text, "completion": answer}) + "\n")
    for name, part in (("train.jsonl", lines[:500]), ("held.jsonl", lines[500:])):
        (out / name).write_text("".join(part))


class PCG:
    """math/rand/v2's PCG and what whorl tune draws of it (client/train/table.go)."""

    def __init__(self, high, low):
        self.state = high << 64 | low

    def uint64(self):
        mask = (1 << 64) - 1
        self.state = (self.state * (2549297995355413924 << 64 | 4865540595714422341) + (6364136223846793005 << 64 | 1442695040888963407)) % (1 << 128)
        high, low = self.state >> 64, self.state & mask
        high ^= high >> 32
        high = high * 0xDA942042E4DD58B5 & mask
        high ^= high >> 48
        return high * (low | 1) & mask

    def int_n(self, n):
        if n & (n - 1) == 0:
            return self.uint64() & (n - 1)
        product = (self.uint64() >> 32) * n
        while product & 0xFFFFFFFF < (1 << 32) % n:
            product = (self.uint64() >> 32) * n
        return product >> 32


def order(n, seed, epoch):
    out, rng = list(range(n)), PCG(seed, 2 + (epoch << 8))
    for i in range(n - 1, 0, -1):
        j = rng.int_n(i + 1)
        out[i], out[j] = out[j], out[i]
    return out


def load(model):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    torch.set_num_threads(1)
    where = dict(pretrained_model_name_or_path=str(model.parent), gguf_file=model.name)
    return AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, attn_implementation="eager").eval(), AutoTokenizer.from_pretrained(**where)


def examples(path, tok):
    out = []
    for line in path.read_text().splitlines():
        line = json.loads(line)
        given, own = tok(line["prompt"])["input_ids"], tok(line["completion"], add_special_tokens=False)["input_ids"]
        out.append((given + own + [tok.eos_token_id], len(given)))
    return out


def forward(model, batch):
    """Sums of losses and of examples that are told whole, of a batch that is padded at its right."""
    import torch

    longest = max(len(ids) for ids, _ in batch)
    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in batch])
    mask = torch.tensor([[1] * len(i) + [0] * (longest - len(i)) for i, _ in batch])
    logits = model(input_ids=ids, attention_mask=mask).logits[:, -longest:]
    loss, right = 0, 0
    for row, (i, start) in zip(logits, batch):
        own, told = torch.tensor(i[start:]), row[start - 1 : len(i) - 1]
        loss = loss + torch.nn.functional.cross_entropy(told, own, reduction="sum")
        right += bool((told.argmax(-1) == own).all())
    return loss, right


def batches(list_of):
    return (list_of[at : at + BATCH] for at in range(0, len(list_of), BATCH))


def frozen(a):
    import torch

    model, tok = load(a.model)
    kinds = [tok(w, add_special_tokens=False)["input_ids"] for w in SETS]
    right = told = 0
    held = examples(a.out / "held.jsonl", tok)
    with torch.no_grad():
        for ids, start in held:
            row = model(input_ids=torch.tensor([ids[:start]])).logits[0, -1]
            right += bool(max(kinds, key=lambda k: row[k[0]]) == ids[start : start + 1])
            told += int(row.argmax()) == ids[start]
    return dict(better_of_two=right / len(held), told=told / len(held))


def tune(a, name, more):
    command = [a.whorl, "tune", a.model, "--local", "--data", a.out / "train.jsonl", "--eval", a.out / "held.jsonl", "--task", "causal", "--prompt-tokens", TOKENS,
               "--epochs", EPOCHS, "--batch", BATCH, "--lr", RATE, "--seed", SEED, "--out", a.out / name, "--json", *more]
    said = subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(said.splitlines()[-1])


def peft(a):
    import torch
    from peft import PromptTuningConfig, get_peft_model

    base, tok = load(a.model)
    learn, held = examples(a.out / "train.jsonl", tok), examples(a.out / "held.jsonl", tok)
    model = get_peft_model(base, PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=TOKENS)).eval()
    table, draw = model.prompt_encoder["default"].embedding.weight, PCG(SEED, 1)
    with torch.no_grad():
        table.copy_(base.get_input_embeddings().weight[[draw.int_n(base.config.vocab_size) for _ in range(TOKENS)]])
    optimizer = torch.optim.AdamW([table], lr=RATE, weight_decay=0, betas=(0.9, 0.999), eps=1e-8)
    steps, step, epochs, began = EPOCHS * math.ceil(len(learn) / BATCH), 0, [], time.time()
    for epoch in range(EPOCHS):
        total = count = told = 0
        for batch in batches([learn[i] for i in order(len(learn), SEED, epoch)]):
            n = sum(len(ids) - start for ids, start in batch)
            optimizer.zero_grad()
            loss, right = forward(model, batch)
            (loss / n).backward()
            total, count, told = total + loss.item(), count + n, told + right
            torch.nn.utils.clip_grad_norm_([table], 1.0)
            optimizer.param_groups[0]["lr"] = RATE * (steps - step) / steps
            optimizer.step()
            step += 1
            print(f"peft: step {step}/{steps}  loss {loss.item() / n:.4f}  {time.time() - began:.0f} s", flush=True)
        with torch.no_grad():
            sums = [forward(model, batch) for batch in batches(held)]
        n = sum(len(ids) - start for ids, start in held)
        epochs.append(dict(epoch=epoch + 1, loss=total / count, accuracy=told / len(learn),
                           eval=dict(loss=sum(float(s[0]) for s in sums) / n, accuracy=sum(s[1] for s in sums) / len(held))))
    return dict(epochs=epochs, seconds=time.time() - began)


def compare(a):
    read = lambda name: json.loads((a.out / f"{name}.json").read_text())
    print("frozen model, 200 held out:", read("frozen"))
    print(f"{'epoch':6}" + "".join(f"{n:>34}" for n in ("whorl shallow", "PEFT", "whorl deep")))
    runs, worst = [read(n)["epochs"] for n in ("shallow", "peft", "deep")], 0
    for i in range(EPOCHS):
        cells = ["{:.4f}; held out {:.4f}, {:.3f}".format(r[i]["loss"], r[i]["eval"]["loss"], r[i]["eval"]["accuracy"]) for r in runs]
        print(f"{i + 1:<6}" + "".join(f"{c:>34}" for c in cells))
        worst = max(worst, abs(runs[0][i]["loss"] - runs[1][i]["loss"]))
    print(f"whorl and PEFT differ by {worst:.2g} nats at most")
    assert worst <= 0.02 and runs[0][-1]["eval"]["accuracy"] >= 0.9


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--whorl", default="bin/whorl")
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("steps", nargs="*")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    steps = dict(
        data=lambda: data(a.out), frozen=lambda: frozen(a), shallow=lambda: tune(a, "shallow", []),
        deep=lambda: tune(a, "deep", ["--deep"]), peft=lambda: peft(a), table=lambda: compare(a),
    )
    for name in a.steps or steps:
        said = steps[name]()
        if said:
            (a.out / f"{name}.json").write_text(json.dumps(said) + "\n")


main()
