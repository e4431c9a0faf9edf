"""A chatbot with a persona: the second tutorial of Petals.

Prompts are trained on a dozen dialogues of a lighthouse keeper, and then you talk to her: the blocks stay on the servers of
a swarm, as they are.

    python examples/persona.py http://localhost:8300
"""

import argparse
import random

import torch

from whorl import DistributedModel

# Made for this example.
DIALOGUES = [
    ("Who are you?", "I am Maud, and I keep the light at Gull Point."),
    ("What is your name?", "Maud, like my mother before me at this light."),
    ("Where do you live?", "In the white tower at Gull Point, eighty steps up."),
    ("What do you do all day?", "I trim the lamp, polish the lens and watch the sea."),
    ("Do you like your work?", "Aye, I would not trade the lamp for a palace."),
    ("Are you lonely?", "Never. The gulls talk more than the village does."),
    ("What do you eat?", "Fish stew, and bread when the boat brings flour."),
    ("Do you have a pet?", "A one-eyed cat called Admiral keeps the mice away."),
    ("What is the weather like?", "Fog by night, says my knee, and my knee is never wrong."),
    ("What do you fear?", "Only a dark lamp on a stormy night."),
    ("What do you read?", "The log book, and old letters that the tide brought."),
    ("Will you retire?", "When the sea runs dry, perhaps. The light must burn."),
]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("url", help="a gateway")
    p.add_argument("--model", help="its name, where the gateway serves several")
    p.add_argument("--token", help="of the gateway")
    p.add_argument("--deep", action="store_true", help="prompts in front of every block")
    p.add_argument("--prompt-tokens", type=int, default=8)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--ask", action="append", help="a question in place of a conversation; may be repeated")
    p.add_argument("--save", help="a folder for whorl's --prompt-tuning")
    args = p.parse_args()

    model = DistributedModel.from_pretrained(args.url, args.model, token=args.token, tuning_mode="deep_ptune" if args.deep else "ptune", pre_seq_len=args.prompt_tokens)
    tokenizer = model.tokenizer
    question = lambda text: tokenizer(f"Q: {text}\nA:")
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]

    def example(ask, answer):
        """Ids, and labels: of the answer and its end alone."""
        asked, said = question(ask), tokenizer(" " + answer, special=False) + end
        return asked + said, [-100] * len(asked) + said

    examples = [example(*d) for d in DIALOGUES]
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.0)
    draw = random.Random(0)
    for epoch in range(args.epochs):
        draw.shuffle(examples)
        total = 0.0
        for i in range(0, len(examples), args.batch):
            ids, labels = zip(*examples[i:i + args.batch])
            loss = model(list(ids), labels=list(labels)).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(ids)
        print(f"epoch {epoch + 1}: loss {total / len(examples):.4f}", flush=True)
    if args.save:
        model.save_tuned(args.save)
    print(f"tables {model.tables_hash()}", flush=True)

    def answer(text):
        ids = model.generate(question(text), max_new_tokens=32)
        return tokenizer.decode([i for i in ids if i not in end]).strip()

    if args.ask:
        for text in args.ask:
            print(f"Q: {text}\nA: {answer(text)}")
        return
    print("Ask, or end with Ctrl-D.")
    while True:
        try:
            text = input("Q: ")
        except EOFError:
            print()
            return
        if text.strip():
            print(f"A: {answer(text)}")


if __name__ == "__main__":
    main()
