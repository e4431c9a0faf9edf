"""Vocabulary-only GGUF files of the trained tokenizers, as converters write them, by the gguf package."""

import gzip
import json
import tempfile
from pathlib import Path

import gguf

# golden -> (model, pre, what else the file says)
FILES = {
    "smollm2": ("gpt2", "smollm", {}),
    "gpt2": ("gpt2", "gpt-2", {}),
    "llama3": ("gpt2", "llama-bpe", dict(bos="<|begin_of_text|>")),
    "qwen3": ("gpt2", "qwen2", dict(add_bos=False)),
    "falcon": ("gpt2", "falcon", {}),
    "bloom": ("gpt2", "bloom", {}),
    "tekken": ("gpt2", "tekken", dict(bos="<s>", eos="</s>", add_bos=True)),
    "phi4": ("gpt2", "dbrx", {}),
    "phi4mini": ("gpt2", "gpt-4o", {}),
    "olmo2": ("gpt2", "dbrx", {}),
    "granite": ("gpt2", "refact", {}),
    "commandr": ("gpt2", "command-r", dict(bos="<BOS_TOKEN>", eos="<EOS_TOKEN>", add_bos=True)),
    "smollm3": ("gpt2", "smaug-bpe", dict(add_bos=False)),
    "scored": ("llama", "default", dict(bos="<s>", eos="</s>", unk="<unk>", add_bos=True, add_eos=False)),
    "gemma": ("llama", "default", dict(bos="<bos>", eos="<eos>", unk="<unk>", add_bos=True, add_eos=False, add_space_prefix=False)),
    "phi3": ("llama", "default", dict(name="Phi-3 mini", bos="<s>", eos="</s>", unk="<unk>", add_bos=True, add_eos=False)),
}


def kinds(spec, model):
    vocab = {t: i for t, i in spec["model"]["vocab"].items()}
    vocab.update({a["content"]: a["id"] for a in spec["added_tokens"]})
    tokens = sorted(vocab, key=vocab.get)
    assert [vocab[t] for t in tokens] == list(range(len(tokens)))
    types = [gguf.TokenType.NORMAL] * len(tokens)
    for i, t in enumerate(tokens):
        if model == "llama" and t.startswith("<0x") and len(t) == 6:
            types[i] = gguf.TokenType.BYTE
    for a in spec["added_tokens"]:
        types[a["id"]] = gguf.TokenType.CONTROL if a["special"] else gguf.TokenType.USER_DEFINED
        if not a["special"]:
            tokens[a["id"]] = a["content"].replace("▁", " ")
    if model == "llama":
        types[vocab["<unk>"]] = gguf.TokenType.UNKNOWN
    return tokens, types


def write(name, tok, path):
    model, pre, more = FILES[name]
    spec = json.loads(tok.to_str())
    tokens, types = kinds(spec, model)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "vocab.gguf"
        w = gguf.GGUFWriter(plain, "llama")
        w.add_name(more.get("name", name))
        w.add_tokenizer_model(model)
        w.add_tokenizer_pre(pre)
        w.add_token_list(tokens)
        w.add_token_types([int(t) for t in types])
        if model == "llama":
            w.add_token_scores([0.0 if t != gguf.TokenType.NORMAL else -float(i) for i, t in enumerate(types)])
        else:
            w.add_token_merges([" ".join(m) for m in spec["model"]["merges"]])
        for key, add in dict(bos=w.add_bos_token_id, eos=w.add_eos_token_id, unk=w.add_unk_token_id).items():
            if key in more:
                add(tok.token_to_id(more[key]))
        for key, add in dict(add_bos=w.add_add_bos_token, add_eos=w.add_add_eos_token, add_space_prefix=w.add_add_space_prefix).items():
            if key in more:
                add(more[key])
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.close()
        data = plain.read_bytes()
    with open(path, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=9) as f:
        f.write(data)
