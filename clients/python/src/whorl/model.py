"""A model in a swarm as torch modules: autograd goes through the blocks, which stay as they are.

Everything is float32 on the CPU. The bits of outputs and gradients do not depend on which servers computed
them, nor on whether some died meanwhile.
"""

import hashlib
from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch
from torch import nn

from . import folder
from .generation import generate
from .layers import Layers, Session


def _array(t):
    return t.detach().to("cpu", torch.float32).contiguous().numpy()


def _tensor(a, like=None):
    t = torch.from_numpy(np.ascontiguousarray(a, np.float32))
    return t if like is None else t.to(like.device, like.dtype)


class _Blocks(torch.autograd.Function):
    """Rows through a run of blocks, with prompts in front of each or None."""

    @staticmethod
    def forward(ctx, layers, span, lengths, rows, prompts):
        ctx.layers, ctx.span, ctx.lengths = layers, span, lengths
        ctx.save_for_backward(rows, prompts)
        return _tensor(layers.forward(_array(rows), lengths, span, None if prompts is None else _array(prompts)), rows)

    @staticmethod
    def backward(ctx, grads):
        rows, prompts = ctx.saved_tensors
        by_rows, by_prompts = ctx.layers.backward(_array(rows), _array(grads), ctx.lengths, ctx.span, None if prompts is None else _array(prompts))
        if by_prompts is None:
            return None, None, None, _tensor(by_rows, rows), None
        if prompts.dim() == 3:  # one table for all: their gradients are added in the order of sequences
            total = by_prompts[:, 0].copy()
            for i in range(1, by_prompts.shape[1]):
                total += by_prompts[:, i]
            by_prompts = total
        return None, None, None, _tensor(by_rows, rows), _tensor(by_prompts, prompts)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layers, rows):
        ctx.layers = layers
        ctx.save_for_backward(rows)
        return _tensor(layers.norm(_array(rows)), rows)

    @staticmethod
    def backward(ctx, grads):
        rows, = ctx.saved_tensors
        return None, _tensor(ctx.layers.norm_backward(_array(rows), _array(grads)), rows)


class _Logits(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layers, rows):
        ctx.layers = layers
        ctx.save_for_backward(rows)
        return _tensor(layers.logits(_array(rows), exact=True), rows)

    @staticmethod
    def backward(ctx, grads):
        rows, = ctx.saved_tensors
        return None, _tensor(ctx.layers.logits_backward(_array(rows), _array(grads)), rows)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layers, rows, ids):
        losses, grads = layers.loss(_array(rows), ids.cpu().numpy(), grad=ctx.needs_input_grad[1])
        if grads is not None:
            ctx.save_for_backward(_tensor(grads, rows))
        return _tensor(losses, rows)

    @staticmethod
    def backward(ctx, upstream):
        grads, = ctx.saved_tensors
        return None, grads * upstream[:, None], None


class RemoteSequential(nn.Module):
    """A run of a model's blocks in the swarm: a module whose weights nobody sees.

    ``len``, slices and indices give runs of it: ``model.h[4:12]``.
    """

    def __init__(self, layers: Layers, start: int = 0, end: Optional[int] = None):
        super().__init__()
        self._layers, self.start, self.end = layers, start, layers.blocks if end is None else end

    def forward(self, hidden, lengths=None, prompts=None):
        """Rows behind the blocks, shaped as they came.

        hidden: [batch, rows, hidden], or with lengths [sum of lengths, hidden]: sequences of any lengths, one
        behind another.
        prompts: added to the first rows in front of each block: [blocks, prompt, hidden], or
        [blocks, batch, prompt, hidden].
        """
        shape = hidden.shape
        if lengths is None:
            if hidden.dim() != 3:
                raise ValueError(f"hidden has the shape {tuple(shape)}: want [batch, rows, {self._layers.hidden}], or lengths")
            lengths = [shape[1]] * shape[0]
        if shape[-1] != self._layers.hidden:
            raise ValueError(f"rows of {shape[-1]} values: {self._layers.name} has {self._layers.hidden}")
        return _Blocks.apply(self._layers, (self.start, self.end), list(lengths), hidden.reshape(-1, shape[-1]), prompts).reshape(shape)

    def inference_session(self, max_length, batch=1, prompts=None, exact=False):
        """A session with cache through these blocks, in tensors; see whorl.Session."""
        return TensorSession(self._layers, max_length, batch, (self.start, self.end), None if prompts is None else _array(prompts), exact)

    def __len__(self):
        return self.end - self.start

    def __getitem__(self, i):
        if isinstance(i, slice):
            start, end, step = i.indices(len(self))
            if step != 1 or start >= end:
                raise IndexError(f"blocks [{i.start}:{i.stop}:{i.step}] of {len(self)}: want a run of them")
        else:
            start = range(len(self))[i]
            end = start + 1
        return RemoteSequential(self._layers, self.start + start, self.start + end)

    def extra_repr(self):
        return f"{self._layers.name}, blocks {self.start}:{self.end}"


class TensorSession(Session):
    """A session whose rows are tensors: [batch, rows, hidden], or with lengths [sum of lengths, hidden].
    No gradients go through it."""

    def step(self, rows, lengths=None, last=False):
        if not isinstance(rows, torch.Tensor):
            return super().step(rows, lengths, last)
        out = _tensor(super().step(_array(rows), lengths, last), rows)
        return out.reshape(self.batch, -1, rows.shape[-1]) if rows.dim() == 3 else out


@dataclass
class Output:
    """What a forward pass gives. last_hidden_state: rows behind the last block, [sum of lengths, hidden], those
    of prompts included; lengths: rows of each sequence."""

    loss: Optional[torch.Tensor]
    logits: Optional[torch.Tensor]
    last_hidden_state: torch.Tensor
    lengths: list


class DistributedModel(nn.Module):
    """A causal language model in a swarm. Its parameters are prompts, if it is tuned.

    h: its blocks, a RemoteSequential. tokenizer: texts and ids.
    prompt_embeddings: with tuning_mode ``ptune`` rows in front of every sequence, [pre_seq_len, hidden].
    deep_prompts: with ``deep_ptune`` also rows that are added to these in front of each block,
    [blocks, pre_seq_len, hidden].
    """

    def __init__(self, layers: Layers, tuning_mode=None, pre_seq_len=8, seed=0):
        super().__init__()
        if tuning_mode not in (None, "ptune", "deep_ptune"):
            raise ValueError(f"tuning_mode is {tuning_mode!r}: want ptune, deep_ptune or None")
        self.layers, self.h, self.tokenizer = layers, RemoteSequential(layers), layers.tokenizer
        self.pre_seq_len = pre_seq_len if tuning_mode else 0
        self.prompt_embeddings = self.deep_prompts = None
        if tuning_mode:  # rows of some ids, as whorl tune begins; deep prompts begin at nothing
            ids = np.random.default_rng(seed).integers(0, layers.vocab, pre_seq_len)
            self.prompt_embeddings = nn.Parameter(_tensor(layers.embed(ids)))
        if tuning_mode == "deep_ptune":
            self.deep_prompts = nn.Parameter(torch.zeros(layers.blocks, pre_seq_len, layers.hidden))

    @classmethod
    def from_pretrained(cls, url, model=None, *, token=None, patience=120.0, bf16=False, **options):
        """The model that a gateway serves.

        url: the gateway's, such as ``http://localhost:8300``; model: its name, None where it serves one;
        token, patience, bf16: see whorl.Layers. options: tuning_mode, pre_seq_len, seed, and num_labels of
        a classifier.
        """
        return cls(Layers(url, model, token, patience, bf16), **options)

    def embed(self, ids):
        """Embeddings of ids, [len(ids), hidden]: constants."""
        return _tensor(self.layers.embed(torch.as_tensor(ids).cpu().numpy()))

    def norm(self, rows):
        """Rows behind the final norm."""
        return _Norm.apply(self.layers, rows)

    def lm_head(self, rows):
        """Logits of rows behind the last block, the final norm included, [rows, vocab]."""
        return _Logits.apply(self.layers, rows)

    def cross_entropy(self, rows, ids):
        """The cross-entropy of each id behind its row, [rows]: as lm_head and a loss, but without sending
        logits."""
        return _Loss.apply(self.layers, rows, torch.as_tensor(ids))

    def hidden_states(self, input_ids, attention_mask=None):
        """Rows behind the last block, and how many each sequence has, prompts included."""
        sequences = _sequences(input_ids, attention_mask)
        rows = self.embed(np.concatenate(sequences))
        lengths = [self.pre_seq_len + len(s) for s in sequences]
        if self.pre_seq_len:
            parts = []
            for piece in rows.split([len(s) for s in sequences]):
                parts += [self.prompt_embeddings, piece]
            rows = torch.cat(parts)
        return self.h(rows, lengths, self.deep_prompts), lengths

    def forward(self, input_ids, labels=None, attention_mask=None, return_logits=None):
        """An Output. input_ids: lists of ids of any lengths, or a tensor [batch, ids] with an attention_mask.

        labels: ids as input_ids has them, -100 where nothing is to be learnt; the loss is the mean
        cross-entropy of each behind what is before it. return_logits: False without, True with logits of
        all rows but those of prompts; by default where there are no labels.
        """
        sequences = _sequences(input_ids, attention_mask)
        hidden, lengths = self.hidden_states(sequences)
        pre, at, rows, ids, own = self.pre_seq_len, 0, [], [], []
        wanted = _sequences(labels, attention_mask) if labels is not None else [()] * len(sequences)
        for s, n, want in zip(sequences, lengths, wanted):
            own += range(at + pre, at + n)
            if labels is not None and len(want) != len(s):
                raise ValueError(f"{len(want)} labels for {len(s)} ids")
            for i, target in enumerate(want):
                if target >= 0 and pre + i > 0:
                    rows.append(at + pre + i - 1)
                    ids.append(int(target))
            at += n
        loss = logits = None
        if labels is not None:
            if not ids:
                raise ValueError("labels have no id behind a row: there is nothing to learn")
            loss = self.cross_entropy(hidden[rows], ids).mean()
        if return_logits or return_logits is None and labels is None:
            logits = self.lm_head(hidden[own])
        return Output(loss, logits, hidden, lengths)

    @torch.no_grad()
    def generate(self, input_ids, max_new_tokens=32, **options):
        """New ids behind some: a list for a list of ids, a list of lists for several. With the model's prompts,
        if it has some. options: those of whorl.generation.generate, such as do_sample, temperature,
        top_k, top_p, seed, eos_token_id, session."""
        sequences = _sequences(input_ids)
        shallow = deep = None
        if self.pre_seq_len:
            shallow, deep = _array(self.prompt_embeddings), None if self.deep_prompts is None else _array(self.deep_prompts)
        out = generate(self.layers, sequences, max_new_tokens, shallow, deep, **options)
        return out if _several(input_ids) else out[0]

    def inference_session(self, max_length, batch=1, exact=False):
        """A session with cache through all blocks, for rows of your own, or for generate. Prompts of
        the model are not put in front of it."""
        return self.h.inference_session(max_length, batch, exact=exact)

    def tables_hash(self):
        """SHA-256 of all parameters, in the order of their names."""
        h = hashlib.sha256()
        for name, p in sorted(self.named_parameters()):
            h.update(name.encode() + b"\0" + _array(p).tobytes())
        return h.hexdigest()

    def save_tuned(self, path):
        """Writes the prompts as a folder that ``--prompt-tuning`` of whorl takes."""
        if not self.pre_seq_len:
            raise ValueError("the model has no prompts: make it with tuning_mode")
        folder.save(path, self.layers, _array(self.prompt_embeddings), None if self.deep_prompts is None else _array(self.deep_prompts), *self._score())

    def _score(self):
        return None, None


class DistributedModelForSequenceClassification(DistributedModel):
    """Labels of texts, by a linear classifier of one's own behind the last row of each."""

    def __init__(self, layers, num_labels=2, tuning_mode="ptune", pre_seq_len=8, seed=0, labels=None):
        super().__init__(layers, tuning_mode, pre_seq_len, seed)
        self.labels = labels
        g = torch.Generator().manual_seed(seed)
        self.score = nn.Parameter(torch.randn(num_labels, layers.hidden, generator=g) * 0.02)

    def forward(self, input_ids, labels=None, attention_mask=None):
        """An Output whose logits are [sequences, labels]; with labels the mean cross-entropy."""
        hidden, lengths = self.hidden_states(input_ids, attention_mask)
        last = torch.as_tensor(np.cumsum(lengths) - 1)
        logits = self.norm(hidden[last]) @ self.score.T
        loss = None if labels is None else nn.functional.cross_entropy(logits, torch.as_tensor(labels))
        return Output(loss, logits, hidden, lengths)

    def generate(self, *_, **__):
        raise TypeError("a classifier writes no texts")

    def _score(self):
        return _array(self.score), self.labels


def _several(input_ids):
    if isinstance(input_ids, torch.Tensor):
        return input_ids.dim() > 1
    return len(input_ids) > 0 and np.ndim(input_ids[0]) > 0


def _sequences(input_ids, attention_mask=None):
    """Sequences of ids as arrays."""
    if not _several(input_ids):
        input_ids = [input_ids]
    out = [np.asarray(torch.as_tensor(s).cpu().numpy(), np.int64).reshape(-1) for s in input_ids]
    if attention_mask is not None:
        if len(attention_mask) != len(out):
            raise ValueError(f"attention_mask of {len(attention_mask)} sequences for {len(out)}")
        out = [s[np.asarray(m, bool)] if len(m) == len(s) else s for s, m in zip(out, (torch.as_tensor(m).cpu().numpy() for m in attention_mask))]
    if not all(len(s) for s in out):
        raise ValueError("a sequence without ids")
    return out
