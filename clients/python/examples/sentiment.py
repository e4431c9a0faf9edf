"""Sentiment classification on a frozen language model: the first tutorial of Petals.

The model's blocks stay on the servers of a swarm. Trained are a few rows in front of every text, with --deep
also in front of every block, and a linear classifier: here, with torch.

    whorl serve smollm2.gguf --new-swarm          # or a gateway of somebody's swarm
    python examples/sentiment.py http://localhost:8300
"""

import argparse
import random

import torch

from reviews import reviews
from whorl import DistributedModelForSequenceClassification


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("url", help="a gateway")
    p.add_argument("--model", help="its name, where the gateway serves several")
    p.add_argument("--token", help="of the gateway")
    p.add_argument("--deep", action="store_true", help="prompts in front of every block")
    p.add_argument("--prompt-tokens", type=int, default=8)
    p.add_argument("--examples", type=int, default=128, help="to learn from")
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--lr", type=float, default=0.005)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--save", help="a folder for whorl's --prompt-tuning")
    args = p.parse_args()

    model = DistributedModelForSequenceClassification.from_pretrained(
        args.url, args.model, token=args.token, num_labels=2, labels=["bad", "good"], tuning_mode="deep_ptune" if args.deep else "ptune", pre_seq_len=args.prompt_tokens)
    learn, held_out = ([(model.tokenizer(text), label) for text, label in reviews(n, seed)] for n, seed in ((args.examples, 1), (max(8, args.examples // 4), 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.0)
    steps = args.epochs * -(-args.examples // args.batch)
    rise = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min((i + 1) / rise, (steps - i) / steps))

    @torch.no_grad()
    def accuracy():
        right = 0
        for i in range(0, len(held_out), args.batch):
            ids, labels = zip(*held_out[i:i + args.batch])
            right += int((model(list(ids)).logits.argmax(1) == torch.tensor(labels)).sum())
        return right / len(held_out)

    print(f"{model.layers.name}, {len(model.h)} blocks; before: accuracy {accuracy():.2f}", flush=True)
    draw = random.Random(0)
    for epoch in range(args.epochs):
        draw.shuffle(learn)
        for i in range(0, len(learn), args.batch):
            ids, labels = zip(*learn[i:i + args.batch])
            loss = model(list(ids), labels=torch.tensor(labels)).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            print(f"epoch {epoch + 1}, examples {i + len(ids)}/{len(learn)}: loss {loss.item():.4f}", flush=True)
        print(f"epoch {epoch + 1}: held out accuracy {accuracy():.2f}", flush=True)
    if args.save:
        model.save_tuned(args.save)
    print(f"tables {model.tables_hash()}")


if __name__ == "__main__":
    main()
