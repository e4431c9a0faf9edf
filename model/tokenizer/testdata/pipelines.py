"""Tokenizers with the pipeline settings of the model families that the first goldens (make.py) leave out."""

import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors

UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def special(*names, **kw):
    return [AddedToken(n, normalized=False, special=True, **kw) for n in names]


def pipelines(make):
    """make is the module make.py: its train, edit, template_processing and sentencepiece."""

    def byte_level(pre, names, bos=None, normalizer=None, ignore_merges=False, vocab=600, added=()):
        tok = make.train(pre, normalizer=normalizer, special=names, vocab=vocab)
        tok = make.edit(tok, lambda s: s["model"].update(ignore_merges=ignore_merges))
        tok.decoder = decoders.ByteLevel()
        tok.add_tokens(list(added))
        parts = [processors.ByteLevel(trim_offsets=False)]
        if bos:
            parts.append(make.template_processing(tok, bos))
        tok.post_processor = processors.Sequence(parts) if bos else parts[0]
        return tok

    def split(pattern, behavior="isolated", invert=False):
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior=behavior, invert=invert), BYTES])

    def digits():
        return pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
        )

    def tekken():
        return byte_level(split(TEKKEN), ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], bos="<s>", ignore_merges=True)

    def phi4():
        # The pattern is spelled as what to keep: everything else is removed, and nothing is left over.
        tok = byte_level(split(make.LLAMA3, "removed", True), ["<|endoftext|>"])
        tok.add_special_tokens(special("<|im_start|>", "<|im_end|>", lstrip=True, rstrip=True))
        return tok

    def phi4mini():
        tok = byte_level(split(O200K), ["<|endoftext|>"])
        tok.add_special_tokens(special("<|end|>", "<|user|>", "<|assistant|>", "<|tool_call|>", rstrip=True))
        return tok

    def olmo2():
        return byte_level(split(make.LLAMA3), ["<|endoftext|>", "<|im_start|>"])

    def granite():
        return byte_level(digits(), ["<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>"], vocab=700)

    def commandr():
        return byte_level(digits(), ["<BOS_TOKEN>", "<EOS_TOKEN>"], bos="<BOS_TOKEN>", normalizer=normalizers.NFC())

    def smollm3():
        added = [AddedToken(t, normalized=False) for t in ("<think>", "</think>", "<tool_call>")]
        return byte_level(split(make.LLAMA3), ["<|begin_of_text|>", "<|im_start|>", "<|im_end|>"], ignore_merges=True, added=added)

    def qwen3():
        added = [AddedToken(t, normalized=False) for t in ("<tool_call>", "</tool_call>", "<think>", "</think>")]
        return byte_level(split(make.QWEN2), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizer=normalizers.NFC(), added=added)

    def gemma():
        """No prefix space; whole runs of white space are added tokens that are not special."""
        from transformers.tokenization_utils_base import generate_merges

        def change(spec):
            vocab = {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3, "<start_of_turn>": 4, "<end_of_turn>": 5}
            runs = ["\n" * n for n in range(1, 8)] + ["▁" * n for n in range(2, 8)] + ["\t", "\t\t"]
            for t in runs:
                vocab[t] = len(vocab)
            for b in range(256):
                vocab[f"<0x{b:02X}>"] = len(vocab)
            old = spec["model"]["vocab"]
            for t in sorted(old, key=old.get):
                if t not in ("<unk>", "<s>", "</s>"):
                    vocab.setdefault(t, len(vocab))
            # User-defined pieces score 0, better than any that was learned.
            scores = {t: 0.0 if t in runs else -float(i) for t, i in vocab.items() if i > 5 and not (t.startswith("<0x") and len(t) == 6)}
            spec["model"].update(vocab=vocab, unk_token="<unk>", merges=generate_merges(vocab, scores))
            spec["added_tokens"] = [
                dict(id=vocab[t], content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=vocab[t] < 6)
                for t in sorted(list(vocab)[:6] + runs, key=vocab.get)
            ]
            spec["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
            spec["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
            spec["post_processor"] = None

        tok = make.edit(make.sentencepiece(True), change)
        tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        tok.post_processor = make.template_processing(tok, "<bos>")
        return tok

    def phi3():
        tok = make.edit(make.sentencepiece(True), lambda s: s["added_tokens"][2].update(rstrip=True))
        tok.post_processor = make.template_processing(tok, "<s>")
        tok.add_special_tokens(special("<|endoftext|>") + special("<|end|>", "<|user|>", "<|assistant|>", rstrip=True))
        return tok

    return dict(
        tekken=tekken, phi4=phi4, phi4mini=phi4mini, olmo2=olmo2, granite=granite, commandr=commandr, smollm3=smollm3, qwen3=qwen3,
        gemma=gemma, phi3=phi3,
    )  # fmt: skip


def variants():
    """Other spellings of a part of one of the tokenizers: name -> (whose, what to replace)."""

    def metaspace(**kw):
        return {"type": "Metaspace", "replacement": "▁", **kw}

    def both(**kw):
        return {"pre_tokenizer": metaspace(**kw), "decoder": metaspace(**{k: v for k, v in kw.items() if k != "split"})}

    return {
        "metaspace-always": ("metaspace", both(prepend_scheme="always", split=True)),
        "metaspace-unsplit": ("metaspace", both(prepend_scheme="always", split=False)),
        "metaspace-first": ("metaspace", both(prepend_scheme="first", split=True)),
        "metaspace-never": ("metaspace", both(prepend_scheme="never", split=True)),
        # As files of 2023 have it.
        "metaspace-2023": ("metaspace", both(add_prefix_space=True)),
        "metaspace-2023-bare": ("metaspace", both(add_prefix_space=False, prepend_scheme="never")),
        "prefix-space": ("gpt2", {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}}),
        "nfkc": ("gpt2", {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "NFKC"}]}}),
    }


def varied(base, change):
    spec = json.loads(base.to_str())
    spec.update(change)
    return Tokenizer.from_str(json.dumps(spec))
