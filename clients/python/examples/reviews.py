"""Short reviews made for this example: no data set has to be fetched."""

import random

GOOD = ["wonderful", "moving", "clever", "warm", "thrilling", "charming", "brilliant", "funny", "graceful", "superb", "lively", "a delight"]
BAD = ["dull", "clumsy", "tedious", "hollow", "noisy", "annoying", "dreadful", "stale", "lifeless", "confusing", "shallow", "a bore"]
THINGS = ["film", "play", "novel", "concert", "series", "meal", "hotel", "game", "museum", "talk"]
FRAMES = [
    "The {thing} was {a} and {b}.", "What a {thing}: {a} from start to end.", "I found the {thing} {a}, and my friends called it {b}.", "Honestly, this {thing} is {a}.",
    "We saw the {thing} twice. It stayed {a}.", "Some say otherwise, but the {thing} felt {a} and {b}.",
]


def reviews(n, seed):
    """n pairs of a text and its label: 1 for a good review, 0 for a bad one."""
    draw = random.Random(seed)
    out = []
    for i in range(n):
        label = i % 2
        a, b = draw.sample(GOOD if label else BAD, 2)
        out.append((draw.choice(FRAMES).format(thing=draw.choice(THINGS), a=a, b=b), label))
    draw.shuffle(out)
    return out
