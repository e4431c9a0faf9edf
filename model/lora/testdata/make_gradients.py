"""Records what the reference library's autograd makes of the adapted models that make_adapters.py made: gradients by rows and by
prompts, as ../../testdata/make_grad.py does for models without adapters.

Run in this folder, after make_adapters.py:  python make_gradients.py [NAME ...]
"""

import os
import sys

import torch
from peft import PeftModel

import make_adapters
import make_grad  # make_adapters found its folder
import record

# Lengths of sequences and positions with prompts; those of the model without its adapter where that
# has what begins further on.
SHORT = ([19, 4], 3)
LENGTHS = {"phi3-all": ([36, 4], 3)}


def make(name):
    path, _, _ = make_adapters.ADAPTERS[name]
    lengths, prompts = LENGTHS.get(name, SHORT)
    with torch.no_grad():
        model = make_adapters.load(path, **make_grad.ways(os.path.basename(path)))
        PeftModel.from_pretrained(model, name).eval()  # puts the adapter into model
    for p in model.parameters():
        p.requires_grad_(False)
    hidden = model.config.get_text_config().hidden_size
    run = lambda dtype: list(zip(*[make_grad.gradients(model, i, n, prompts, hidden, dtype) for i, n in enumerate(lengths)]))
    rows, table = run(torch.float32)
    model.double()
    with make_grad.doubles():
        rows64, table64 = run(torch.float64)
    data = dict(lengths=lengths, prompts=prompts, rows=make_grad.kept(rows, rows64), table=make_grad.kept(table, table64))
    record.save(f"{name}/grad.json.gz", data)
    greatest = max(float(r.abs().max()) for r in rows64)
    print(f"{name}: off by {data['rows']['off'] / greatest:.2g} and {data['table']['off'] / greatest:.2g} of {greatest:.3g}")


if __name__ == "__main__":
    for name in sys.argv[1:] or make_adapters.ADAPTERS:
        make(name)
