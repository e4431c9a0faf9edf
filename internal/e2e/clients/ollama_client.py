# Asks a gateway as programs do that use Ollama's own package. WHORL_URL is the gateway. The
# first claim that does not hold ends it with an error.
import json
import os
import urllib.request
from importlib.metadata import version
import ollama

base = os.environ["WHORL_URL"]
client = ollama.Client(host=base, timeout=120)


def claim(ok, *what):
    if not ok:
        raise AssertionError(what)


def post(path, body):
    ask = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(ask))


# The model, by list and by name.
[listed] = client.list().models
model = listed.model
shown = client.show(model)
room = post("/tokenize", {"prompt": "x"})["max_model_len"]
claim(shown.modelinfo["whorl.context_length"] == room and "completion" in shown.capabilities, shown)

# A chat, plain and streamed, is the text of the chat route.
turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello \U0001F600, who are you?"}]
options = {"temperature": 0, "num_predict": 24}
same = post("/v1/chat/completions", {"messages": turns, "max_tokens": 24, "temperature": 0})
plain = client.chat(model + ":latest", turns, options=options)
text = plain.message.content
claim(text == same["choices"][0]["message"]["content"] and text, plain, same)
claim((plain.prompt_eval_count, plain.eval_count) == (same["usage"]["prompt_tokens"], same["usage"]["completion_tokens"]), plain)
claim(plain.done and plain.done_reason in ("stop", "length") and plain.total_duration > 0, plain)
pieces = list(client.chat(model, turns, stream=True, options=options))
claim("".join(p.message.content for p in pieces) == text, pieces)
claim([p.done for p in pieces] == [False] * (len(pieces) - 1) + [True] and pieces[-1].eval_count == plain.eval_count, pieces)

# A text alone is the user's turn, or raw as it is.
one = client.generate(model, "Hello", system="Be brief.", options=options)
claim(one.response == client.chat(model, [turns[0], {"role": "user", "content": "Hello"}], options=options).message.content, one)
raw = client.generate(model, "The quick brown fox", raw=True, options=options)
claim(raw.response == post("/v1/completions", {"prompt": "The quick brown fox", "max_tokens": 24, "temperature": 0})["choices"][0]["text"], raw)

# Equal seeds give equal answers; a stop text is not shown.
drawn = [client.generate(model, "Hello", options={"seed": 7, "top_k": 40, "top_p": 0.9, "min_p": 0.01, "repeat_penalty": 1.1, "num_predict": 12}).response for _ in range(2)]
claim(drawn[0] == drawn[1] and drawn[0], drawn)
stop = text[len(text) // 2:][:3]
cut = client.chat(model, turns, options={**options, "stop": [stop]})
claim(cut.message.content == text[:text.index(stop)] and cut.done_reason == "stop", cut, stop)

# What cannot be done is said by name.
for bad, word in (({"options": {"mirostat": 2}}, "mirostat"), ({"options": {"top_p": 2}}, "top_p"), ({"model": "llama3"}, "llama3")):
    for stream in (False, True):
        try:
            list(client.chat(**{"model": model, "messages": turns, "stream": stream, **bad}))
            claim(False, bad)
        except ollama.ResponseError as e:
            claim(word in e.error and e.status_code in (400, 404), e)
print("ok", version("ollama"))
