"""What every fixture records of a model that the reference library runs in float32."""

import gzip
import json

import torch


def greedy(model, ids, n):
    """n ids that greedy decoding appends to ids, and at each step the best logit minus the second."""
    out, margins, cache = [], [], None
    step = torch.tensor([ids])
    for _ in range(n):
        r = model(input_ids=step, cache=cache, use_cache=True)
        cache = r.cache
        top = torch.topk(r.logits[0, -1], 2)
        out.append(int(top.indices[0]))
        margins.append(round(float(top.values[0] - top.values[1]), 6))
        step = torch.tensor([[out[-1]]])
    return out, margins


def score(model, ids):
    """Natural logarithm of p(id i | ids before i), null for the first."""
    logits = model(input_ids=torch.tensor([ids])).logits[0].double()
    logp = torch.log_softmax(logits, dim=-1)
    return [None] + [float(logp[i, ids[i + 1]]) for i in range(len(ids) - 1)]


def blocks(model, ids):
    """What the first block reads and what every block puts out, [block + 1][token][hidden]."""
    list_of = model.transformer.h if hasattr(model, "transformer") else model.model.layers
    seen = []
    hooks = [list_of[0].register_forward_pre_hook(lambda _m, i: seen.append(i[0]))]
    hooks += [b.register_forward_hook(lambda _m, _i, o: seen.append(o[0] if isinstance(o, tuple) else o)) for b in list_of]
    model(input_ids=torch.tensor([ids]))
    for h in hooks:
        h.remove()
    return [[[float(v) for v in row] for row in r[0]] for r in seen]


def logits(model, ids):
    """Logits of every position, [token][vocab]."""
    return [[float(v) for v in row] for row in model(input_ids=torch.tensor([ids])).logits[0]]


def prepare():
    torch.set_grad_enabled(False)
    torch.manual_seed(0)


def save(path, data):
    """Compact JSON, compressed to the same bytes at every run. Values of float32 need 9 digits."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(text.encode())
