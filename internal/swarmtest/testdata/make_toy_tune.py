"""Makes toy_tune.json: what prompt tuning by the PEFT library makes of the toy model, epoch by epoch.

    pip install torch==2.15.0 transformers==5.24.0 peft==0.18.0
    python make_toy_tune.py

First table, examples, order and options are those of TestTuneEqualsPEFT (tune_peft_test.go). Examples have
different lengths and no padding: each goes through the model by itself, and losses are added up.
"""
import json, math, pathlib
import torch
from peft import PromptTuningConfig, get_peft_model
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
ORDERS = json.loads("""[[5,23,13,14,4,6,2,7,20,11,10,19,8,17,12,16,3,21,18,9,0,1,22,15],[13,1,0,3,9,15,19,8,18,7,23,12,10,14,6,22,4,20,21,5,2,11,17,16],[11,1,15,14,4,6,13,2,18,16,23,3,22,8,7,17,9,20,10,21,0,5,12,19]]""")  # train.Order(24, 7, epoch); the test says if it changes
FIRST = [5, 17, 40, 90]
EPOCHS, BATCH, RATE, WARMUP, DECAY, CLIP = 3, 6, 0.03, 2, 0.01, 1.0

torch.manual_seed(0)
torch.set_num_threads(1)


def examples():
    out = []
    for i in range(24):
        ids = [(i * 37 + j * j * 11 + 5) % 100 for j in range(4 + i % 5)]
        out.append((ids, i % 3))  # what is learnt begins at the second number
    return out


def rate(step, steps):
    if step < WARMUP:
        return RATE * (step + 1) / (WARMUP + 1)
    return RATE * (steps - step) / (steps - WARMUP)


def main():
    base = AutoModelForCausalLM.from_pretrained(HERE / "toy", dtype=torch.float32)
    model = get_peft_model(base, PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=len(FIRST)))
    table = model.prompt_encoder["default"].embedding.weight
    with torch.no_grad():
        table.copy_(base.get_input_embeddings().weight[FIRST])
    optimizer = torch.optim.AdamW([table], lr=RATE, weight_decay=DECAY, betas=(0.9, 0.999), eps=1e-8)
    model.eval()  # no dropout; gradients flow all the same
    data, losses, step = examples(), [], 0
    steps = EPOCHS * math.ceil(len(data) / BATCH)
    for order in ORDERS:
        total = count = 0
        for at in range(0, len(order), BATCH):
            batch = [data[i] for i in order[at : at + BATCH]]
            # The first of a text is told by the last prompt.
            n = sum(len(ids) - start for ids, start in batch)
            optimizer.zero_grad()
            for ids, start in batch:
                labels = [-100] * start + ids[start:]
                k = len(ids) - start
                loss = model(input_ids=torch.tensor([ids]), labels=torch.tensor([labels])).loss
                (loss * k / n).backward()
                total += loss.item() * k
            count += n
            torch.nn.utils.clip_grad_norm_([table], CLIP)
            optimizer.param_groups[0]["lr"] = rate(step, steps)
            optimizer.step()
            step += 1
        losses.append(total / count)
    out = {"orders": ORDERS, "losses": losses, "table": table.detach().flatten().tolist()}
    (HERE / "toy_tune.json").write_text(json.dumps(out) + "\n")
    print(losses)


main()
