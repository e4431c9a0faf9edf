# Asks a gateway as researchers do, with the package of clients/python and numpy alone. WHORL_URL is the
# gateway, of the toy model. The first claim that does not hold ends it with an error.
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../clients/python/src"))
import numpy as np
import whorl
from whorl import wire
from whorl.generation import choose, generate

url = os.environ["WHORL_URL"]


def claim(ok, *what):
    if not ok:
        raise AssertionError(what)


def refused(kind, code, do):
    try:
        do()
    except kind as e:
        claim(e.code == code, e.code, str(e))
        return e
    raise AssertionError((code, "was not refused"))


# Numbers as bytes, and back: rounded to bfloat16 to the nearest, ties to even.
for v, want in ((1.0, 1.0), (1.00390625, 1.0), (1.01171875, 1.015625), (-2.5, -2.5)):
    claim(wire.from_bf16(wire.to_bf16(np.float32([v])))[0] == want, v)
claim(choose(np.float32([1, 3, 3, 2])) == 1)
claim({choose(np.float32([0, 5, 5, 0]), True, top_k=2, draw=np.random.default_rng(i).random) for i in range(32)} == {1, 2})
claim(choose(np.float32([0, 9, 1, 2]), True, top_p=0.5, draw=lambda: 0.99) == 1)

m = whorl.Layers(url)
claim(m.name == "toy" and m.blocks == 8 and m.hidden == 64, m.name)
ids = m.tokenizer("Hello, how are you?")
claim("Hello, how are you?" in m.tokenizer.decode(ids), ids)

# Greedy ids are those that the gateway gives for the same prompt, of each of several of any lengths.
want = json.loads(os.environ["WHORL_WANT"])
prompts, news = [w["ids"] for w in want], [w["new"] for w in want]
claim(generate(m, prompts, len(news[0]), eos_token_id=()) == news, news)

# A run of runs is the whole, forward and back.
draw = np.random.default_rng(1)
lengths = [7, 3, 12]
rows = draw.standard_normal((22, 64), np.float32)
grads = draw.standard_normal((22, 64), np.float32)
whole = m.forward(rows, lengths)
half = m.forward(rows, lengths, (0, 3))
claim((m.forward(half, lengths, (3, 8)) == whole).all())
back, none = m.backward(rows, grads, lengths)
claim(none is None)
claim((m.backward(rows, m.backward(half, grads, lengths, (3, 8))[0], lengths, (0, 3))[0] == back).all())
# So is a batch of its sequences, whatever a request may hold.
m._bytes = 64 * 4 * 16 * 13
claim((m.backward(rows, grads, lengths)[0] == back).all() and (m.forward(rows, lengths) == whole).all())
m._bytes = m.connection.about["request_bytes"]

# Prompts, for all and for each; gradients against differences.
prompts = draw.standard_normal((8, 2, 64)).astype(np.float32) * 0.1
out = m.forward(rows, lengths, prompts=prompts)
by_rows, by_prompts = m.backward(rows, grads, lengths, prompts=prompts)
claim(by_prompts.shape == (8, 3, 2, 64), by_prompts.shape)
each = np.repeat(prompts[:, None], 3, axis=1)
claim((m.forward(rows, lengths, prompts=each) == out).all())
claim((m.backward(rows, grads, lengths, prompts=each)[1] == by_prompts).all())
total = by_prompts.sum(axis=1)
step = np.float32(1e-2 / np.linalg.norm(total)) * total
up, down = ((m.forward(rows, lengths, prompts=prompts + s).astype(np.float64) * grads).sum() for s in (step, -step))
slope, foretold = (up - down) / 2, float((step.astype(np.float64) * total).sum())
claim(abs(slope - foretold) < 0.02 * abs(foretold), slope, foretold)

# A loss without logits is one with.
targets = np.arange(22)
losses, by_loss = m.loss(rows, targets)
logits = m.logits(rows, exact=True).astype(np.float64)
p = np.exp(logits - logits.max(1, keepdims=True))
p /= p.sum(1, keepdims=True)
claim(np.allclose(losses, -np.log(p[np.arange(22), targets]), atol=1e-4))
p[np.arange(22), targets] -= 1
claim(np.allclose(by_loss, m.logits_backward(rows, p), atol=1e-4))
claim(m.loss(rows, targets, grad=False)[1] is None)

# A session has the bits of a pass, cut back too.
with m.session(12, batch=3, prompts=prompts, exact=True) as s:
    a = s.step(np.concatenate([rows[:2], rows[7:9], rows[10:15]]), [2, 2, 5])
    claim((a == np.concatenate([out[:2], out[7:9], out[10:15]])).all())
    s.truncate([1, 2, 3])
    b = s.step(np.concatenate([rows[1:7], rows[13:22]]), [6, 0, 9], last=True)
    claim((b == out[[6, 21]]).all() and s.positions == [7, 2, 12], s.positions)
    refused(whorl.InvalidRequest, "max_length", lambda: s.step(rows[:1], [0, 0, 1]))
    s.close()
    refused(whorl.SessionLost, "no_session", lambda: s.step(rows[:1], [1, 0, 0]))

# What is wrong is said, by whose it is; and a connection that broke is made anew.
refused(whorl.InvalidRequest, "model_not_found", lambda: whorl.Layers(url, "other"))
refused(whorl.InvalidRequest, "invalid_value", lambda: m.forward(rows, lengths, (3, 9)))
refused(whorl.InvalidRequest, "invalid_value", lambda: m.embed([10**6]))
refused(whorl.InvalidRequest, "invalid_value", lambda: m.session(10**6))
m.connection._socket.close()
claim((m.forward(rows, lengths) == whole).all())
half = whorl.Layers(url, bf16=True)
rounded = half.forward(rows, lengths)
claim(0 < np.linalg.norm(rounded - whole) < 0.2 * np.linalg.norm(whole), np.linalg.norm(rounded - whole), np.linalg.norm(whole))
try:
    whorl.DistributedModel
    claim("torch" in sys.modules)
except ImportError as e:
    claim("whorl-client[torch]" in str(e), e)
print("ok research")
