# Asks a gateway as programs do that use Anthropic's own package. WHORL_URL is the gateway. The
# first claim that does not hold ends it with an error.
import json
import os
import urllib.request
import anthropic
from anthropic import Anthropic

base = os.environ["WHORL_URL"]
client = Anthropic(base_url=base, api_key="none", max_retries=0, timeout=120)


def claim(ok, *what):
    if not ok:
        raise AssertionError(what)


def chat(messages, tokens):
    body = {"messages": messages, "max_tokens": tokens, "temperature": 0}
    ask = urllib.request.Request(base + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(ask))


model = json.load(urllib.request.urlopen(base + "/v1/models"))["data"][0]["id"]
greedy = {"temperature": 0}
ask = {"model": model, "max_tokens": 24, "extra_body": greedy}
turns = [{"role": "user", "content": "Hello \U0001F600, who are you?"}]
blocks = [{"role": "user", "content": [{"type": "text", "text": "Hello \U0001F600, "}, {"type": "text", "text": "who are you?"}]}]

# An answer is that of the chat route, by the same template, and so is its size.
plain = client.messages.create(messages=turns, system="Be brief.", **ask)
same = chat([{"role": "system", "content": "Be brief."}] + turns, 24)
text = plain.content[0].text
claim(text == same["choices"][0]["message"]["content"] and text, text, same)
claim(plain.usage.input_tokens == same["usage"]["prompt_tokens"], plain.usage, same["usage"])
claim(plain.usage.output_tokens == same["usage"]["completion_tokens"], plain.usage, same["usage"])
claim(plain.stop_reason in ("max_tokens", "end_turn") and plain.role == "assistant" and plain.model == model, plain)
claim(client.messages.create(messages=blocks, system=[{"type": "text", "text": "Be brief."}], **ask).content[0].text == text)
count = client.messages.count_tokens(model=model, messages=turns, system="Be brief.")
claim(count.input_tokens == plain.usage.input_tokens, count)

# A stream has the same text, and the package puts the same message together.
parts, names = [], []
with client.messages.stream(messages=turns, system="Be brief.", **ask) as stream:
    for event in stream:
        names.append(event.type)
        if event.type == "content_block_delta":
            parts.append(event.delta.text)
    last = stream.get_final_message()
claim("".join(parts) == text == last.content[0].text, parts, text)
claim((last.stop_reason, last.usage.output_tokens, last.usage.input_tokens) == (plain.stop_reason, plain.usage.output_tokens, plain.usage.input_tokens), last)
claim(names[0] == "message_start" and names[-1] == "message_stop", names)

# A text that ends the answer is named and not shown.
stop = text[len(text) // 2:][:3]
cut = client.messages.create(messages=turns, system="Be brief.", stop_sequences=[stop], **ask)
claim(cut.stop_reason == "stop_sequence" and cut.stop_sequence == stop and cut.content[0].text == text[:text.index(stop)], cut, stop)

# A conversation goes on.
more = turns + [{"role": "assistant", "content": plain.content}, {"role": "user", "content": "And?"}]
claim(client.messages.create(messages=more, **ask).content)

# What cannot be done is said by name, and by the package's own errors.
tool = {"type": "bash_20250124", "name": "bash"}
image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
for bad, word in (
    ({"tools": [tool]}, "bash"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
    ({"messages": [{"role": "user", "content": [image]}]}, "image"),
    ({"extra_body": {"top_p": 2}}, "top_p"),
    ({"max_tokens": 1 << 20}, "maximum context length"),
):
    try:
        client.messages.create(**{**ask, "messages": turns, **bad})
        claim(False, bad)
    except anthropic.BadRequestError as e:
        claim(word in e.message and e.body["error"]["type"] == "invalid_request_error" and e.request_id == e.body["request_id"], e, e.body)
try:
    client.messages.create(**{**ask, "messages": turns, "model": "claude"})
    claim(False, "an unknown model answered")
except anthropic.NotFoundError as e:
    claim("claude" in e.message, e)
print("ok", anthropic.__version__)
