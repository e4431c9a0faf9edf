# Trains prompts on the toy model through a gateway, WHORL_URL, with torch if the first argument is torch, else with numpy.
# After the second and fourth of its steps it waits for a line on stdin. It ends with the hash of the table.
import hashlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../clients/python/src"))
import numpy as np
import whorl

STEPS, WAITS = 7, (2, 4)
url = os.environ["WHORL_URL"]
texts = [f"The {a} box and the {b} one, {i} times." for i, (a, b) in enumerate([("red", "old"), ("green", "new"), ("blue", "dark"), ("light", "red"), ("old", "green"), ("new", "blue")])]


def after(step, loss):
    print(f"step {step} loss {loss:.4f}", flush=True)
    if step in WAITS:
        sys.stdin.readline()


def with_torch():
    import torch
    torch.set_num_threads(1)
    model = whorl.DistributedModel.from_pretrained(url, tuning_mode="deep_ptune", pre_seq_len=4)
    ids = [model.tokenizer(t) for t in texts]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    first = None
    with model.inference_session(max_length=16) as session: # it lives while servers die
        rows = model.embed(ids[0])
        before = session.step(rows[None, :6])
        for step in range(1, STEPS + 1):
            loss = model(ids, labels=ids).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            first = first or loss.item()
            after(step, loss.item())
        session.truncate(3)
        assert torch.equal(session.step(rows[None, 3:6]), before[:, 3:]), "the session has other numbers"
    assert loss.item() < first, (first, loss.item())
    return model.tables_hash()


def with_numpy():
    m = whorl.Layers(url)
    ids = [m.tokenizer(t) for t in texts]
    shallow, deep = m.embed(range(5, 9)), np.zeros((m.blocks, 4, m.hidden), np.float32)
    lengths = [4 + len(s) for s in ids]
    ends = np.cumsum(lengths)
    starts = ends - lengths
    rows_of = [m.embed(s) for s in ids]
    at = np.concatenate([np.arange(s + 3, e - 1) for s, e in zip(starts, ends)]) # each id is foretold by the row before
    targets = np.concatenate(ids)
    losses = []
    with m.session(16) as session: # it lives while servers die
        before = session.step(rows_of[0][:6])
        for step in range(1, STEPS + 1):
            rows = np.concatenate([r for seq in rows_of for r in (shallow, seq)])
            out = m.forward(rows, lengths, prompts=deep)
            loss, by_out = m.loss(out[at], targets)
            grads = np.zeros_like(out)
            grads[at] = by_out / np.float32(len(targets))
            by_rows, by_deep = m.backward(rows, grads, lengths, prompts=deep)
            for i, s in enumerate(starts): # in the order of sequences
                shallow = shallow - np.float32(0.05) * by_rows[s:s + 4]
                deep = deep - np.float32(0.05) * by_deep[:, i]
            losses.append(float(loss.mean()))
            after(step, losses[-1])
        session.truncate(3)
        assert (session.step(rows_of[0][3:6]) == before[3:]).all(), "the session has other numbers"
    assert losses[-1] < losses[0], losses
    return hashlib.sha256(shallow.tobytes() + deep.tobytes()).hexdigest()


print("tables", with_torch() if sys.argv[1:] == ["torch"] else with_numpy())
