# Asks a gateway as programs do that use OpenAI's own package. WHORL_URL is the gateway. The
# first claim that does not hold ends it with an error.
import os
import openai
from openai import OpenAI

base = os.environ["WHORL_URL"]
client = OpenAI(base_url=base + "/v1", api_key="none", max_retries=0, timeout=120)


def claim(ok, *what):
    if not ok:
        raise AssertionError(what)


# The list of models, and how long a session the swarm can hold.
[model] = client.models.list().data
claim(client.models.retrieve(model.id).context_length == model.context_length > 0, model)
ask = {"model": model.id, "temperature": 0, "seed": 1}
say = [{"role": "user", "content": "Hello \U0001F600, who are you?"}]

# A chat, plain and streamed, is the same text; usage comes when it is asked for.
plain = client.chat.completions.create(messages=say, max_tokens=24, **ask)
text = plain.choices[0].message.content
parts, usage = [], None
for chunk in client.chat.completions.create(messages=say, max_tokens=24, stream=True, stream_options={"include_usage": True}, **ask):
    parts += [c.delta.content or "" for c in chunk.choices]
    usage = chunk.usage or usage
claim("".join(parts) == text, parts, text)
claim(usage.completion_tokens == plain.usage.completion_tokens > 0, usage)

# Log-probabilities of a chat: the bytes of its tokens, joined, are its text. A toy model also
# writes bytes that are none: the text then has marks for them.
texts = 0
for i in range(8):
    top = i % 4
    more = {"top_logprobs": top} if top else {}
    question = [{"role": "user", "content": f"{i} times?"}]
    c = client.chat.completions.create(messages=question, max_tokens=12, logprobs=True, **more, **ask).choices[0]
    joined = b"".join(bytes(t.bytes) for t in c.logprobs.content if t.bytes is not None)
    claim("\ufffd" in c.message.content or joined.decode() == c.message.content, joined, c.message.content)
    texts += "\ufffd" not in c.message.content
    claim(all(len(t.top_logprobs) == top for t in c.logprobs.content), c.logprobs)
claim(texts > 0)

# A turn that only called a tool, with what models make of arguments.
for arguments in ('{"city": "Oslo"}', "", "null", "not { json"):
    call = {"id": "call00001", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    history = say + [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call00001", "content": "rain"}]
    claim(client.chat.completions.create(messages=history, max_tokens=4, **ask).choices, arguments)

# Completions: more prompts than are worked on at a time, and more answers, each in its place.
prompts = [f"Number {i}" for i in range(9)]
many = client.completions.create(prompt=prompts, max_tokens=4, n=2, **ask)
claim([c.index for c in many.choices] == list(range(18)), many)
for i, prompt in enumerate(prompts):
    one = client.completions.create(prompt=prompt, max_tokens=4, **ask).choices[0].text
    claim(many.choices[2 * i].text == one, prompt, one, many.choices[2 * i].text)

# Names of tokens differ, offsets lie in the text.
c = client.completions.create(prompt="\U0001F600\U0001F680", max_tokens=12, logprobs=5, **ask).choices[0]
claim(all(len(top) == 5 for top in c.logprobs.top_logprobs), c.logprobs.top_logprobs)
claim(all(0 <= o <= len(c.text) for o in c.logprobs.text_offset), c.logprobs.text_offset, c.text)

# The scores of a prompt, as evaluation harnesses ask for them: the model's own continuation of a
# prompt scores as it did when it was generated.
prompt = "The quick brown fox"
ids = client.post(base + "/tokenize", body={"prompt": prompt}, cast_to=object)["tokens"]
first = client.completions.create(prompt=prompt, max_tokens=6, logprobs=1, extra_body={"return_token_ids": True, "ignore_eos": True}, **ask).choices[0]
whole = ids + first.token_ids
scores = client.completions.create(prompt=whole, max_tokens=0, echo=True, logprobs=1, **ask).choices[0].logprobs
claim(scores.token_logprobs[0] is None and len(scores.tokens) == len(whole), scores)
claim(scores.token_logprobs[len(ids):] == first.logprobs.token_logprobs, scores.token_logprobs, first.logprobs.token_logprobs)
claim(scores.text_offset == sorted(scores.text_offset), scores.text_offset)

# Long prompts too, computed in pieces.
room = model.context_length - 8
long = client.completions.create(prompt=(whole * room)[:room], max_tokens=1, echo=True, logprobs=0, **ask).choices[0].logprobs
claim(len(long.tokens) == room + 1, len(long.tokens))

# A number is a number; what cannot be done is said of its field; too much is said with both numbers.
claim(client.completions.create(prompt="x", extra_body={"max_tokens": 2.0}, **ask).usage.completion_tokens <= 2)
for bad, field in (({"guided_grammar": "root ::= x"}, "guided_grammar"), ({"top_p": 2}, "top_p"), ({"suffix": "x"}, "suffix")):
    try:
        client.completions.create(prompt="x", extra_body=bad, **ask)
        claim(False, bad)
    except openai.BadRequestError as e:
        claim(e.param == field and field in e.message, e)
try:
    client.completions.create(prompt=[5] * model.context_length, max_tokens=9, **ask)
    claim(False, "too long a prompt was taken")
except openai.BadRequestError as e:
    want = f"maximum context length is {model.context_length} tokens. However, you requested {model.context_length + 9} tokens"
    claim(e.code == "context_length_exceeded" and want in e.message, e)
print("ok", openai.__version__)
