"""Records what the reference library answers with SmolLM2-135M-Instruct, read from GGUF and dequantised to float32.

Run in this folder:  python make_smollm2.py PATH/SmolLM2-135M-Instruct.Q4_1.gguf
"""

import os
import sys

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer

import record

NEW = 24

LONG = """The history of bridges is a history of materials. The first ones were trees that had fallen across a stream, and
then stones laid on other stones. The Romans built arches of cut stone and of concrete, and some of them still carry traffic
after two thousand years. In the Middle Ages bridges carried houses, shops and chapels, and a town would charge a toll to those
who wanted to cross. Iron came in 1779, when a bridge of cast iron was built over the Severn in England; it was put together like
a piece of carpentry, because nobody yet knew how iron wanted to be joined. Wrought iron followed, then steel, and with steel the
long spans that we know: the suspension bridge, which hangs its road from cables, and the cantilever, which reaches out from both
banks until the two arms meet. Reinforced concrete made the slender bridges of the twentieth century possible. Engineers learned
from failures as much as from successes. When the Tay Bridge fell in a storm in 1879, they learned to reckon with the wind, and
when the Tacoma Narrows Bridge twisted itself to pieces in 1940, they learned that a road deck can behave like a wing. Today a
bridge is calculated, tested in a wind tunnel and watched by sensors for all of its life. The longest span in the world is
over two kilometres. In short, the most important lesson of this history is"""

TEXTS = [
    "The capital of France is", "Gravity is", "Once upon a time there was a little girl who", "The three primary colours are",
    "Water boils at 100 degrees", "In 1969, the first", "def fibonacci(n):\n    ", "SELECT name FROM users WHERE",
    "#include <stdio.h>\n\nint main(void) {\n", "package main\n\nimport \"fmt\"\n\nfunc main() {\n\t",
    "日本の首都は", "今天天气很好,", "안녕하세요", "Guten Tag! Wie geht es", "Привет, как",
    "I love pizza 🍕🍕 and", "👩‍🚀🚀✨ means", "1 2 3 4 5 6 7", "3.14159 26535 89793", "   leading spaces and\ttabs\n\n",
    "!", LONG,
]

CHATS = [
    [("user", "What is the capital of Italy?")],
    [("system", "You are a pirate. Answer in one sentence."), ("user", "Who are you?")],
    [("system", "Answer in French."), ("user", "Say hello to my friend."), ("assistant", "Bonjour, mon ami !"),
     ("user", "And goodbye?")],
    [("user", "Write a haiku about 雪 and ❄️.")],
]

SCORED = [
    "The quick brown fox jumps over the lazy dog.",
    "In the beginning God created the heaven and the earth.",
    "for i := 0; i < 10; i++ { fmt.Println(i) }",
    "素早い茶色の狐がのろまな犬を飛び越える。",
    "She said: \"I'll be back by 5:30 p.m. on 12/24/2023\" 😀",
]


def main(path):
    record.prepare()
    folder, file = os.path.split(os.path.abspath(path))
    tok = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    # The library's conversion forgets that this vocabulary splits digits one by one, before all else.
    inner = tok.backend_tokenizer
    inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), inner.pre_tokenizer])
    assert len(tok("1234")["input_ids"]) == 4
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    model.set_attn_implementation("eager")

    ref = {"prompts": [], "scores": []}
    prompts = [(t, tok(t)["input_ids"]) for t in TEXTS]
    for chat in CHATS:
        messages = [{"role": r, "content": c} for r, c in chat]
        text = tok.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        prompts.append((text, tok(text)["input_ids"]))
    for text, ids in prompts:
        new, margins = record.greedy(model, ids, NEW)
        ref["prompts"].append({"prompt": text, "ids": ids, "new": new, "margins": margins, "text": tok.decode(new)})
    for text in SCORED + [LONG]:
        ids = tok(text)["input_ids"]
        ref["scores"].append({"ids": ids, "logprobs": record.score(model, ids)})
    record.save("smollm2.json.gz", ref)
    lens = [len(p["ids"]) for p in ref["prompts"]]
    low = sum(m < 1e-3 for p in ref["prompts"] for m in p["margins"])
    print(f"{len(lens)} prompts of {min(lens)} to {max(lens)} tokens; {low} steps with margins under 0.001")


if __name__ == "__main__":
    main(sys.argv[1])
