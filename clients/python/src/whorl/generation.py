"""Ids one after another, chosen from logits."""

import numpy as np


def choose(logits, do_sample=False, temperature=1.0, top_k=0, top_p=1.0, draw=None):
    """An id of logits, [vocab]: the highest, the first of equals; or drawn by ``draw() in [0, 1)``."""
    if not do_sample or temperature == 0:
        return int(np.argmax(logits))
    order = np.argsort(-logits, kind="stable")
    if top_k > 0:
        order = order[:top_k]
    p = logits[order].astype(np.float64) / temperature
    p = np.exp(p - p.max())
    sums = np.cumsum(p / p.sum())
    if top_p < 1:
        order = order[:int(np.searchsorted(sums, top_p)) + 1]
    sums = sums[:len(order)]
    return int(order[min(int(np.searchsorted(sums, draw() * sums[-1], side="right")), len(order) - 1)])


def generate(layers, sequences, max_new_tokens, shallow=None, deep=None, do_sample=False, temperature=1.0, top_k=0, top_p=1.0, seed=0, eos_token_id=None, session=None, exact=False):
    """The new ids of each of some sequences of ids, which may have any lengths.

    Greedy ids are those of ``whorl generate``. An id of eos_token_id (one or several) ends its sequence and
    is its last; None: the tokenizer's end token does, () nothing.
    shallow: rows in front of each sequence, [prompt, hidden]; deep: added to these in front of each block,
    [blocks, prompt, hidden].
    session: an open one that goes on; it has as many sequences. Without one, a session is opened.
    """
    if eos_token_id is None:
        eos_token_id = layers.tokenizer.eos_token_id
    ends = set(np.atleast_1d(np.asarray(() if eos_token_id is None else eos_token_id, np.int64)).tolist())
    draw = np.random.default_rng(seed).random
    lead = 0 if shallow is None else len(shallow)
    rows = [layers.embed(ids) for ids in sequences]
    own = session is None
    if own:
        if lead:
            rows = [np.concatenate([shallow, r]) for r in rows]
        longest = max(len(r) for r in rows)
        session = layers.session(longest + max_new_tokens, len(rows), prompts=deep, exact=exact)
    new = [[] for _ in rows]
    try:
        running = list(range(len(rows)))
        while running:
            lengths = [0] * len(rows)
            for i in running:
                lengths[i] = len(rows[i])
            out = session.step(np.concatenate([rows[i] for i in running]), lengths, last=True)
            logits = layers.logits(out, exact)
            left = []
            for i, l in zip(running, logits):
                new[i].append(choose(l, do_sample, temperature, top_k, top_p, draw))
                if len(new[i]) < max_new_tokens and new[i][-1] not in ends:
                    left.append(i)
            if running := left:
                for i, row in zip(running, layers.embed([new[i][-1] for i in running])):
                    rows[i] = row[None]
    finally:
        if own:
            session.close()
    return new
