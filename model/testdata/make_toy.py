"""Makes TOY, the model of the black-box cases: 8 blocks, hidden size 64, 4 heads, 2 key/value heads, context limit
256, SentencePiece-type tokenizer with byte fallback; and REF, what the reference library answers with it.

Run in this folder:  python make_toy.py
"""

import json
import os

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors, trainers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

import record

FOLDER = "../../internal/swarmtest/testdata/toy"
SEED, VOCAB = 7, 384
NEW, LONG = 60, 200

PROMPTS = [
    "A cat sat on", "The river ran under the bridge", "Once upon a time", "Seven small boats", "In the garden",
    "She opened the door and", "Why does the moon", "def add(a, b):", "Hello, world!", "The old man said",
    "Grüße aus 東京 🙂", "1, 2, 3,", "Rain fell on the", "Tell me about flowers",
]

TEXT = """
The cat sat on the mat and looked at the moon. Once upon a time there was a river that ran under the old bridge.
In the garden the flowers open when the rain stops, and the children play near the water until the sun goes down.
She opened the door and saw seven small boats on the sea. The old man said that the wind would turn in the night.
Why does the moon follow us when we walk home? Because it is far away, he said, and we are very small.
A swarm of many machines can hold a model that none of them could hold alone. Each holds a few blocks of it.
The petals of a flower stand in a ring, and the ring is called a whorl. Hello world, and thank you for the answer.
They carried the bread and the cheese to the other side of the valley, where the others were waiting for them.
"""

TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)


def make_tokenizer():
    """The pipeline of Llama 2's tokenizer.json: no pre-tokenizer, spaces as U+2581, byte fallback."""
    tok = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=specials, show_progress=False, max_token_length=8)
    # Words one by one, so that no merge spans a space; Llama's merges do not either.
    tok.train_from_iterator([w for line in TEXT.split("\n") for w in line.split()], trainer)
    data = json.loads(tok.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if t["id"] < 3]  # bytes are ordinary tokens
    tok = Tokenizer.from_str(json.dumps(data))
    tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in specials[:3]])
    tok.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    assert tok.get_vocab_size() == VOCAB, tok.get_vocab_size()
    return tok


def save_tokenizer(tok):
    tok.save(f"{FOLDER}/tokenizer.json")
    with open(f"{FOLDER}/tokenizer_config.json", "w") as f:
        json.dump({
            "tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True, "add_eos_token": False,
            "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": None,
            "clean_up_tokenization_spaces": False, "model_max_length": 256, "chat_template": TEMPLATE,
        }, f, indent=2)


def make_model():
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=64, intermediate_size=32, num_hidden_layers=8, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=True,
        bos_token_id=1, eos_token_id=2, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    model = LlamaForCausalLM(config).eval().float()
    for name, p in model.named_parameters():
        if "norm" in name:
            p.copy_(1 + 0.2 * torch.randn_like(p))
        elif "embed_tokens" in name:
            p.copy_(torch.randn_like(p) * 0.5)
            p[:3 + 256] *= 0.7  # bytes and specials are rarer than words
        else:
            p.copy_(torch.randn_like(p) * (1.6 / p.shape[1] ** 0.5))
    config.architectures, config.dtype = ["LlamaForCausalLM"], torch.float32
    model.save_pretrained(FOLDER)
    return model


def make_ref(model, tok):
    ref = {"prompts": []}
    for text in PROMPTS:
        ids = tok(text)["input_ids"]
        new, margins = record.greedy(model, ids, NEW)
        joined = ids + new[:10] + tok.encode(" and", add_special_tokens=False)
        after, after_margins = record.greedy(model, joined, 4)
        ref["prompts"].append({
            "prompt": text, "ids": ids, "new": new, "margins": margins, "min_margin": min(margins),
            "text": tok.decode(new, skip_special_tokens=True), "pieces": [tok.decode([i]) for i in new],
            "with_prompt": tok.decode(ids + new, skip_special_tokens=True),
            # case 033: 10 new ids, then the text " and", then 4 more
            "joined": joined, "after": after, "after_min_margin": min(after_margins),
        })
    # cases 027 and 029: one long continuation that ignores the end token
    ids = tok(PROMPTS[0])["input_ids"]
    new, margins = record.greedy(model, ids, LONG)
    ref["long"] = {"prompt": PROMPTS[0], "ids": ids, "new": new, "margins": margins, "min_margin": min(margins),
                   "text": tok.decode(new, skip_special_tokens=True)}
    return ref


def main():
    record.prepare()
    os.makedirs(FOLDER, exist_ok=True)
    save_tokenizer(make_tokenizer())
    tok = AutoTokenizer.from_pretrained(FOLDER)
    model = make_model()
    ref = make_ref(model, tok)
    good = sum(p["min_margin"] > 1e-3 and p["after_min_margin"] > 1e-3 for p in ref["prompts"])
    print(f"{good} of {len(PROMPTS)} prompts have margins over 0.001; the long one {ref['long']['min_margin']}")
    ends = sum(2 in p["new"] for p in ref["prompts"])
    print(f"{ends} prompts meet the end token")
    with open(f"{FOLDER}/ref.json", "w") as f:
        json.dump(ref, f, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main()
