"""Blocks and head of a model in a swarm, in numpy arrays.

Sequences of a batch may have any lengths: rows of all of them stand one behind another, [sum of lengths,
hidden], and nothing is padded.
"""

import numpy as np

from . import errors
from .connection import Connection
from .tokenizer import Tokenizer

# How often rows are held at a gateway while they go forward, back, or to logits (docs/howto/hidden.md),
# with some room for what a backward pass keeps between servers.
_FORWARD, _BACKWARD, _LOGITS = 5, 16, 4
# Most rows of one request, as in Petals: smaller ones spread over servers.
_ROWS = 8192


class Layers:
    """A model in a swarm, by its parts.

    url, model, token, patience: see Connection.
    bf16: rows and gradients travel as bfloat16, in half the bytes, and are rounded.

    blocks, hidden, vocab, max_length: of the model. name, uid: who it is. adapter: NAME@DIGEST of the LoRA
    adapter that its name asks for, or None.
    """

    def __init__(self, url, model=None, token=None, patience=120.0, bf16=False):
        self._args = dict(url=url, model=model, token=token, patience=patience)
        self.connection = Connection(**self._args)
        self.bf16 = bf16
        about = self.connection.about
        self.name, self.uid = about["model"], about["uid"]
        self.adapter = about.get("adapter")
        self.blocks, self.hidden, self.vocab, self.max_length = about["blocks"], about["hidden"], about["vocab"], about["max_length"]
        self._bytes = about["request_bytes"]
        self.tokenizer = Tokenizer(self.connection, self.name)

    def close(self):
        """Ends the connection."""
        self.connection.close()

    def _ask(self, header, *parts, bf16=None):
        return self.connection.request(header, parts, self.bf16 if bf16 is None else bf16)

    def _span(self, span):
        start, end = span if span is not None else (0, self.blocks)
        if not 0 <= start < end <= self.blocks:
            raise errors.InvalidRequest(f"blocks {start}:{end}: {self.name} has blocks 0:{self.blocks}", "invalid_value", "blocks")
        return start, end

    # Outside of the blocks.

    def embed(self, ids):
        """Embeddings of ids, [len(ids), hidden]."""
        ids = np.asarray(ids, np.int32).reshape(-1)
        if len(ids) == 0:
            return np.zeros((0, self.hidden), np.float32)
        return self._by_rows(3 * self.hidden, len(ids), lambda a, b: self._ask({"type": "embed", "rows": b - a}, ids[a:b])[1].reshape(b - a, self.hidden))

    def norm(self, rows):
        """Rows behind the final norm."""
        return self._by_rows(3 * self.hidden, len(rows), lambda a, b: self._ask({"type": "norm", "rows": b - a}, rows[a:b])[1].reshape(b - a, self.hidden))

    def norm_backward(self, rows, grads):
        """Gradients by rows of what norm makes of them, from those by that."""
        return self._by_rows(3 * self.hidden, len(rows), lambda a, b: self._ask({"type": "norm_backward", "rows": b - a}, rows[a:b], grads[a:b])[1].reshape(b - a, self.hidden))

    def logits(self, rows, exact=False):
        """Logits of rows behind the last block, [rows, vocab]. exact: with float32 activations, as for
        training, not as generation computes them."""
        mode = "f32" if exact else "auto"
        return self._by_rows(_LOGITS * self.vocab, len(rows), lambda a, b: self._ask({"type": "logits", "rows": b - a, "activations": mode}, rows[a:b])[1].reshape(b - a, self.vocab))

    def logits_backward(self, rows, grads):
        """Gradients by rows from those by their exact logits."""
        return self._by_rows(_LOGITS * self.vocab, len(rows), lambda a, b: self._ask({"type": "logits_backward", "rows": b - a}, rows[a:b], grads[a:b])[1].reshape(b - a, self.hidden))

    def loss(self, rows, ids, grad=True):
        """Cross-entropy of each id behind its row in nats, [rows], and its gradient by that row,
        [rows, hidden]; None without grad. No logits travel."""
        ids = np.asarray(ids, np.int32).reshape(-1)
        if len(ids) != len(rows):
            raise errors.InvalidRequest(f"{len(ids)} ids for {len(rows)} rows", "invalid_value", "rows")

        def some(a, b):
            _, out = self._ask({"type": "loss", "rows": b - a, "grad": grad}, rows[a:b], ids[a:b])
            return np.concatenate([out[:b - a, None], out[b - a:].reshape(b - a, -1)], axis=1)
        out = self._by_rows(3 * self.hidden, len(rows), some)
        return out[:, 0].copy(), out[:, 1:].copy() if grad else None

    def _by_rows(self, values, n, do):
        """Does something to rows, so many at a time as a request may take of values each."""
        step = max(1, min(_ROWS, self._bytes // 2 // (4 * values)))
        if n == 0:
            raise errors.InvalidRequest("no rows", "invalid_value", "rows")
        return np.concatenate([do(a, min(n, a + step)) for a in range(0, n, step)])

    # Blocks.

    def forward(self, rows, lengths, span=None, prompts=None):
        """Rows behind a run of blocks (start, end), all by default, [sum of lengths, hidden].

        prompts: added to the first rows of each sequence in front of each block: [blocks, prompt, hidden]
        for all of them, or [blocks, sequences, prompt, hidden].
        """
        return self._pass("forward", rows, None, lengths, span, prompts)[0]

    def backward(self, rows, grads, lengths, span=None, prompts=None):
        """Gradients of a loss by rows and by prompts, from those by what forward makes of them.

        Those by prompts are of each sequence for itself, [blocks, sequences, prompt, hidden], also where
        all have the same; None without prompts. Nothing is kept of a forward pass: it is computed again.
        """
        return self._pass("backward", rows, grads, lengths, span, prompts)

    def _pass(self, kind, rows, grads, lengths, span, prompts):
        start, end = self._span(span)
        lengths = [int(n) for n in lengths]
        rows = np.asarray(rows, np.float32).reshape(-1, self.hidden)
        if len(rows) != sum(lengths) or not lengths or min(lengths) < 1:
            raise errors.InvalidRequest(f"{len(rows)} rows for sequences of {lengths}: want their sum, and at least one each", "invalid_value", "lengths")
        if grads is not None:
            grads = np.asarray(grads, np.float32).reshape(rows.shape)
        shared, prompt = True, 0
        if prompts is not None:
            prompts = np.asarray(prompts, np.float32)
            shared, prompt = prompts.ndim == 3, prompts.shape[-2]
        out, by_prompts, at = [], [], 0
        for a, b in self._cut(lengths, kind, (end - start) * prompt):
            n = sum(lengths[a:b])
            header = {"type": kind, "blocks": {"start": start, "end": end}, "lengths": lengths[a:b]}
            parts = [rows[at:at + n]] + ([] if grads is None else [grads[at:at + n]])
            if prompt:
                header.update(prompt=prompt, shared=shared)
                parts.append(prompts if shared else prompts[:, a:b])
            _, got = self._ask(header, *parts)
            out.append(got[:n * self.hidden].reshape(n, self.hidden))
            if prompt and kind == "backward":
                by_prompts.append(got[n * self.hidden:].reshape(end - start, b - a, prompt, self.hidden))
            at += n
        return np.concatenate(out), np.concatenate(by_prompts, axis=1) if by_prompts else None

    def _cut(self, lengths, kind, prompts):
        """Runs of sequences that one request takes."""
        copies = _BACKWARD if kind == "backward" else _FORWARD
        most = self._bytes // (4 * self.hidden)
        a, cost = 0, 0
        for b, n in enumerate(lengths):
            more = copies * n + 6 * prompts
            if b > a and (cost + more > most or sum(lengths[a:b]) + n > _ROWS):
                yield a, b
                a, cost = b, 0
            cost += more
        yield a, len(lengths)

    def session(self, max_length, batch=1, span=None, prompts=None, exact=False):
        """A session with cache; see Session."""
        return Session(self, max_length, batch, span, prompts, exact)


class Session:
    """Rows go through blocks in steps, and each sees those before it in its sequence.

    max_length: positions of each sequence: cache for all of them is reserved at once.
    batch: sequences, which may have different numbers of rows in each step.
    span, prompts: as in Layers.forward.
    exact: with float32 activations, so that rows have the bits of Layers.forward; without, as generation
        computes.

    It has a connection of its own and goes on when servers die: the gateway replaces them. It is a
    context manager. One thread uses it at a time.

    positions: rows in each sequence. reroutes: servers that were replaced so far.
    """

    def __init__(self, layers, max_length, batch=1, span=None, prompts=None, exact=False):
        start, end = layers._span(span)
        self._layers, self.batch, self.max_length = layers, batch, max_length
        header = {"type": "open", "max_length": int(max_length), "batch": batch, "blocks": {"start": start, "end": end}, "activations": "f32" if exact else "auto"}
        parts = []
        if prompts is not None:
            prompts = np.asarray(prompts, np.float32)
            header.update(prompt=prompts.shape[-2], shared=prompts.ndim == 3)
            parts.append(prompts)
        self._connection = Connection(**layers._args)
        try:
            reply, _ = self._connection.request(header, parts, layers.bf16)
        except BaseException:
            self._connection.close()
            raise
        self.ids = reply["sessions"]
        self.positions, self.reroutes = [0] * batch, 0

    def step(self, rows, lengths=None, last=False):
        """Rows behind the blocks, as many as went in; with last one for each sequence that had some.

        rows: [sum of lengths, hidden]; lengths may have 0 for sequences that stand still, and is by
        default the same for all.
        """
        rows = np.asarray(rows, np.float32).reshape(-1, self._layers.hidden)
        if lengths is None:
            lengths = [len(rows) // self.batch] * self.batch
        lengths = [int(n) for n in lengths]
        if len(lengths) != self.batch or sum(lengths) != len(rows):
            raise errors.InvalidRequest(f"{len(rows)} rows in steps of {lengths} for {self.batch} sequences", "invalid_value", "lengths")
        reply, out = self._connection.request({"type": "step", "lengths": lengths, "last": last}, [rows], self._layers.bf16, again=False)
        self.positions = [p + n for p, n in zip(self.positions, lengths)]
        self.reroutes = reply["reroutes"]
        return out.reshape(-1, self._layers.hidden)

    def truncate(self, positions):
        """Cuts each sequence back to so many rows; one number for all."""
        if isinstance(positions, int):
            positions = [positions] * self.batch
        reply, _ = self._connection.request({"type": "truncate", "positions": [int(p) for p in positions]}, again=False)
        self.positions = reply["positions"]

    def close(self):
        """Frees the cache."""
        self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
