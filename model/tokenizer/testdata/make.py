"""Makes the goldens of this folder. See PROVENANCE.md.

    python make.py [path of SmolLM2-135M-Instruct.Q4_1.gguf]
    python make.py show NAME TEXT    what the reference makes of a text, where only a checksum is kept

Needs transformers==5.24.0, tokenizers==0.23.3, jinja2==3.1.6, gguf==0.19.0.
Everything is seeded: two runs write the same bytes.
"""

import base64
import copy
import gzip
import json
import random
import struct
import sys
import unicodedata
import zlib
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import corpus
import many
import pipelines
import templates
import tool_templates
import vocabs

HERE = Path(__file__).parent
RNG = random.Random(20261128)

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# BLOOM's pattern has a class inside a class.
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def write(name, value):
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    with open(HERE / name, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=9) as f:
        f.write(data)


def train(pre, normalizer=None, special=(), alphabet=True, vocab=900):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre
    if normalizer is not None:
        tok.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=list(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()) if alphabet else [],
        limit_alphabet=400,
        show_progress=False,
    )
    tok.train_from_iterator(corpus.lines(), trainer)
    return tok


def edit(tok, change):
    """Changes what the Python classes cannot, through the JSON form."""
    spec = json.loads(tok.to_str())
    change(spec)
    return Tokenizer.from_str(json.dumps(spec))


def template_processing(tok, bos=None, eos=None):
    single = " ".join(([f"{bos}:0"] if bos else []) + ["$A:0"] + ([f"{eos}:0"] if eos else []))
    return processors.TemplateProcessing(
        single=single, pair=single + " $B:1", special_tokens=[(t, tok.token_to_id(t)) for t in (bos, eos) if t]
    )


def byte_level(split=None, **kw):
    if split is None:
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(split), behavior="isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def smollm2():
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"]
    tok = train(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()]), special=special)
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=True)
    return tok


def gpt2():
    tok = train(byte_level(), special=["<|endoftext|>"])
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


def llama3():
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tok = train(byte_level(LLAMA3), special=special)
    tok = edit(tok, lambda s: s["model"].update(ignore_merges=True))
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template_processing(tok, "<|begin_of_text|>")])
    return tok


def qwen2():
    tok = train(byte_level(QWEN2), normalizer=normalizers.NFC(), special=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tok.add_tokens(
        [
            AddedToken("<think>", normalized=False),
            AddedToken("</think>", normalized=False),
            AddedToken("<mask>", lstrip=True, normalized=False),
            AddedToken("<pad>", rstrip=True, normalized=False),
            AddedToken("word", single_word=True, normalized=False),
            AddedToken("été", normalized=True),
        ]
    )
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


def sentencepiece(legacy):
    """Llama 2: characters, 256 byte tokens, merges learned inside of words."""
    tok = train(pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always"), alphabet=False, vocab=700)

    def change(spec):
        old, vocab = spec["model"]["vocab"], {"<unk>": 0, "<s>": 1, "</s>": 2}
        for b in range(256):
            vocab[f"<0x{b:02X}>"] = len(vocab)
        for token in sorted(old, key=old.get):
            vocab[token] = len(vocab)
        spec["model"].update(vocab=vocab, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
        spec["added_tokens"] = [
            dict(id=i, content=c, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
            for i, c in enumerate(["<unk>", "<s>", "</s>"])
        ]
        space = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
        if legacy:
            spec["pre_tokenizer"] = None
            spec["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, space]}
        else:
            spec["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}

    tok = edit(tok, change)
    tok.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1, right=0)]
    )
    tok.post_processor = template_processing(tok, "<s>", None if legacy else "</s>")
    return tok


def scored():
    """As a GGUF file has it: no merges, but a score for each token (here less
    its id), from which the library derives the merges."""
    from transformers.tokenization_utils_base import generate_merges

    def change(spec):
        vocab = spec["model"]["vocab"]
        spec["model"]["merges"] = generate_merges(vocab, {t: -float(i) for t, i in vocab.items()})

    return edit(sentencepiece(True), change)


def mixed():
    """The parts that the others do not have."""
    tok = train(
        pre_tokenizers.Sequence([pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]),
        normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(r"\t+"), " ")]),
        special=["[UNK]", "[CLS]", "[SEP]"],
        alphabet=False,
        vocab=600,
    )
    tok = edit(tok, lambda s: s["model"].update(unk_token="[UNK]"))
    tok.add_special_tokens([AddedToken("<end>", normalized=True), AddedToken("<Raw>", normalized=False)])
    tok.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tok.post_processor = template_processing(tok, "[CLS]", "[SEP]")
    return tok


def falcon():
    pre = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            byte_level(),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), behavior="isolated"),
        ]
    )
    tok = train(pre, special=["<|endoftext|>"], vocab=500)
    tok.decoder = decoders.ByteLevel()
    return tok


def bloom():
    tok = train(byte_level(BLOOM), special=["<unk>", "<s>", "</s>"], vocab=500)
    tok.decoder = decoders.ByteLevel()
    return tok


TOKENIZERS = dict(
    smollm2=smollm2, gpt2=gpt2, llama3=llama3, qwen2=qwen2, llama2=lambda: sentencepiece(True),
    metaspace=lambda: sentencepiece(False), scored=scored, mixed=mixed, falcon=falcon, bloom=bloom,
)  # fmt: skip


def fuzz_text(rng):
    """Random assigned characters, with a taste for what splits words."""
    out = []
    for _ in range(rng.randrange(1, 40)):
        kind = rng.randrange(8)
        if kind == 0:
            out.append(rng.choice(" \t\n\r\u00a0\u2003\u3000\u0085\u2028"))
        elif kind == 1:
            out.append(rng.choice("abcXYZ'’ſ"))
        elif kind == 2:
            out.append(rng.choice("0123456789½Ⅷ²٣"))
        elif kind == 3:
            out.append(rng.choice("'s 't 'll 'RE 'Ve .,;!?()[]{}<>|/\\_-+=*&^%$#@~`"))
        else:
            while True:
                c = chr(rng.randrange(0x20, 0x1FFFF) if kind < 6 else rng.randrange(0x20, 0x2000))
                if unicodedata.category(c) not in ("Cn", "Cs", "Co"):
                    break
            out.append(c)
    return "".join(out)


def texts():
    rng = random.Random(7)
    return corpus.hand_made() + [fuzz_text(rng) for _ in range(130)]


def golden(tok, strings):
    tok.encode_special_tokens = True
    plain = [tok.encode(s, add_special_tokens=False).ids for s in strings]
    tok.encode_special_tokens = False
    parsed = [tok.encode(s, add_special_tokens=True).ids for s in strings]
    rng, size = random.Random(11), tok.get_vocab_size()
    sequences = [[rng.randrange(size) for _ in range(rng.randrange(1, 24))] for _ in range(120)]
    # Runs of byte tokens, most of them not UTF-8.
    first = tok.token_to_id("<0x00>")
    if first is not None:
        for s in ("añ你好🦄é", "\u07ff\uffff"):
            b = s.encode()
            for cut in range(1, len(b)):
                sequences.append([first + x for x in b[cut:]] + [size - 1] + [first + x for x in b[:cut]])
        sequences += [[first + rng.randrange(256) for _ in range(rng.randrange(1, 9))] + [size - 2] for _ in range(60)]
    return dict(
        tokenizer=json.loads(tok.to_str()),
        plain=plain,
        parsed=parsed,
        shown=[tok.decode(i, skip_special_tokens=False) for i in parsed],
        skipped=[tok.decode(i, skip_special_tokens=True) for i in parsed],
        sequences=sequences,
        sequences_shown=[tok.decode(i, skip_special_tokens=False) for i in sequences],
        sequences_skipped=[tok.decode(i, skip_special_tokens=True) for i in sequences],
    )


def disguised(tok):
    """The tokenizer with other names for its special tokens: to it, a user's
    text that spells a special token is only text."""
    spec = json.loads(tok.to_str())
    names = {}
    for a in spec["added_tokens"]:
        if a["special"]:
            names[a["content"]] = f"\u241e{a['id']}\u241f"
    for a in spec["added_tokens"]:
        a["content"] = names.get(a["content"], a["content"])
    vocab = spec["model"]["vocab"]
    spec["model"]["vocab"] = {names.get(t, t): i for t, i in vocab.items()}
    if spec["model"].get("unk_token") in names:
        spec["model"]["unk_token"] = names[spec["model"]["unk_token"]]
    spec["post_processor"] = None
    return Tokenizer.from_str(json.dumps(spec)), names


def chats(toks):
    from transformers.utils.chat_template_utils import render_jinja_template

    def render(template, messages, generation, **kw):
        try:
            out, _ = render_jinja_template([messages], chat_template=template, add_generation_prompt=generation, **kw)
            return out[0]
        except Exception as e:  # the template refuses the conversation
            return None if "refused" in str(e) else "!" + str(e)

    cases = []
    for name, (tokenizer, tokens, template) in templates.TEMPLATES.items():
        tok = toks[tokenizer]
        hidden, names = disguised(tok)
        renamed, renamed_tokens = template, dict(tokens)
        for old, new in names.items():
            renamed = renamed.replace(old, new)
            renamed_tokens = {k: v.replace(old, new) for k, v in renamed_tokens.items()}
        for messages in templates.conversations():
            for generation in (False, True):
                text = render(template, copy.deepcopy(messages), generation, **tokens)
                if text is not None and text.startswith("!"):
                    raise SystemExit(f"{name}: {text}")
                ids = None
                if text is not None:
                    ids = hidden.encode(render(renamed, copy.deepcopy(messages), generation, **renamed_tokens), add_special_tokens=False).ids
                    if not any("<|" in m["content"] or "s>" in m["content"] for m in messages):
                        assert ids == tok.encode(text, add_special_tokens=False).ids, name
                cases.append(dict(template=name, messages=messages, generation=generation, text=text, ids=ids))
    kinds = {n: dict(tokenizer=t, tokens=k, source=s) for n, (t, k, s) in templates.TEMPLATES.items()}
    return dict(templates=kinds, cases=cases)


def tool_chats(toks):
    """Conversations with tools, documents and variables, as apply_chat_template renders them."""
    import transformers.utils.chat_template_utils as library

    class Moment(library.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 3, 7, 9, 5)

    library.datetime = Moment
    cases = []
    for name, (tokenizer, tokens, template) in tool_templates.TEMPLATES.items():
        tok = toks[tokenizer]
        hidden, names = disguised(tok)

        def renamed(text):
            # A role between marks becomes a token that has no name in the source: spell it out.
            roles = {r: f"<|{r}|>" for r in ("user", "assistant") if f"<|{r}|>" in names}
            text = text.replace("'<|' + message['role'] + '|>'", f"{roles}.get(message['role'], '<|' + message['role'] + '|>')")
            for old, new in names.items():
                text = text.replace(old, new)
            return text

        def render(source, special, messages, generation, given):
            messages = library._normalize_chat_messages(copy.deepcopy(messages))
            try:
                out, _ = library.render_jinja_template([messages], chat_template=source, add_generation_prompt=generation, **{**special, **given})
                return out[0]
            except Exception as e:
                return None if "refused" in str(e) else ValueError(f"{name}: {e!r}")

        for messages, given in tool_templates.conversations():
            for generation in (False, True):
                text = render(template, tokens, messages, generation, given)
                ids = failed = None
                if isinstance(text, ValueError):
                    text, failed = None, str(text)
                elif text is not None:
                    shown = render(renamed(template), {k: renamed(v) for k, v in tokens.items()}, messages, generation, given)
                    ids = hidden.encode(shown, add_special_tokens=False).ids
                variables = {k: v for k, v in given.items() if k not in ("tools", "documents")}
                cases.append(dict(template=name, messages=messages, generation=generation, tools=given.get("tools"),
                                  documents=given.get("documents"), vars=variables, text=text, failed=failed, ids=ids))  # fmt: skip
    print(len(cases), "chats with tools,", sum(c["text"] is None for c in cases), "refused,", sum(c["failed"] is not None for c in cases), "of them by errors")
    print("\n".join(sorted({c["failed"] for c in cases if c["failed"]})))
    kinds = {n: dict(tokenizer=t, tokens=k, source=s) for n, (t, k, s) in tool_templates.TEMPLATES.items()}
    return dict(templates=kinds, cases=cases)


def real_model(path, strings):
    """Ids of the real SmolLM2, by the library's own conversion of the file
    with the split of digits put in front, which that conversion forgets."""
    from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer

    architecture, spec, config = get_gguf_tokenizer(path)
    tok, _ = convert_gguf_tokenizer(architecture, spec)
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), tok.pre_tokenizer])
    tok.encode_special_tokens = True
    plain = [tok.encode(s, add_special_tokens=False).ids for s in strings]
    tok.encode_special_tokens = False
    parsed = [tok.encode(s, add_special_tokens=False).ids for s in strings]
    from transformers.utils.chat_template_utils import render_jinja_template

    chat = []
    for messages in templates.conversations():
        text = render_jinja_template([copy.deepcopy(messages)], chat_template=config["chat_template"], add_generation_prompt=True)[0][0]
        if not any("<|" in m["content"] for m in messages):
            chat.append(dict(messages=messages, ids=tok.encode(text, add_special_tokens=False).ids))
    return dict(plain=plain, parsed=parsed, chats=chat)


def every(tok, text):
    """Ids and decodings of one text."""
    tok.encode_special_tokens = True
    plain = tok.encode(text, add_special_tokens=False).ids
    tok.encode_special_tokens = False
    parsed = tok.encode(text, add_special_tokens=True).ids
    return plain, parsed, tok.decode(parsed, skip_special_tokens=False), tok.decode(parsed, skip_special_tokens=True)


def checksums(tok, strings):
    """Two bytes for the encodings of each string, two for the decodings."""
    out = []
    for text in strings:
        plain, parsed, shown, skipped = every(tok, text)
        ids = struct.pack(f"<{len(plain) + 1 + len(parsed)}i", *plain, -1, *parsed)
        out.append(struct.pack("<HH", zlib.crc32(ids) & 0xFFFF, zlib.crc32(f"{shown}\0{skipped}".encode()) & 0xFFFF))
    return base64.b64encode(b"".join(out)).decode()


def classes():
    """Which code points the reference counts as what, as ranges."""
    kinds = {p: pre_tokenizers.Split(Regex(p), behavior="isolated") for p in (r"\p{L}", r"\p{N}", r"\s", pipelines.UPPER, pipelines.LOWER)}
    kinds["Digits"] = pre_tokenizers.Digits(individual_digits=True)
    kinds["Punctuation"] = pre_tokenizers.Punctuation("isolated")
    out = {}
    for name, pre in kinds.items():
        ranges = out[name] = []
        for c in range(0x110000):
            if 0xD800 <= c < 0xE000 or len(pre.pre_tokenize_str(f"\x01{chr(c)}\x01")) == 1:
                continue
            if ranges and ranges[-1][1] == c - 1:
                ranges[-1][1] = c
            else:
                ranges.append([c, c])
    return out


def forms():
    """A checksum over every code point behind a mark, in each normal form."""
    out = {}
    for form in (normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD()):
        text = "".join(form.normalize_str("\u0345" + chr(c)) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
        out[type(form).__name__] = zlib.crc32(text.encode())
    return out


def main():
    me = sys.modules[__name__]
    if sys.argv[1:2] == ["show"]:
        makers = TOKENIZERS | pipelines.pipelines(me)
        if sys.argv[2] in makers:
            tok = makers[sys.argv[2]]()
        else:
            base, change = pipelines.variants()[sys.argv[2]]
            tok = pipelines.varied(makers[base](), change)
        print(*every(tok, sys.argv[3]), sep="\n")
        return
    strings = texts()
    assert len(strings) >= 300, len(strings)
    write("texts.json.gz", strings)
    toks = {name: make() for name, make in TOKENIZERS.items()}
    for name, tok in toks.items():
        write(f"{name}.json.gz", golden(tok, strings))
    families = {name: make() for name, make in pipelines.pipelines(me).items()}
    for name, tok in families.items():
        write(f"{name}.json.gz", dict(tokenizer=json.loads(tok.to_str())))
    everything = toks | families
    strings_too = strings + many.texts()
    assert len(strings_too) >= 1000, len(strings_too)
    varied = {name: (base, change, pipelines.varied(everything[base], change)) for name, (base, change) in pipelines.variants().items()}
    write("many.json.gz", dict(
        texts=many.texts(),
        damaged=many.damaged(),
        variants={name: dict(base=base, change=change) for name, (base, change, _) in varied.items()},
        checksums={name: checksums(tok, strings_too) for name, tok in (everything | {n: t for n, (_, _, t) in varied.items()}).items()},
    ))  # fmt: skip
    write("classes.json.gz", dict(classes=classes(), forms=forms()))
    for name in vocabs.FILES:
        vocabs.write(name, everything[name], HERE / f"{name}.gguf.gz")
    write("chats.json.gz", chats(toks))
    write("tools.json.gz", tool_chats(everything))
    if len(sys.argv) > 1:
        write("smollm2-135m.json.gz", real_model(sys.argv[1], strings))


if __name__ == "__main__":
    main()
