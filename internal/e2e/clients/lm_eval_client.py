# Measures a model with lm-eval, as people compare models: choices scored and answers generated, over
# local-completions, with the gateway's own tokenizer. WHORL_URL is the gateway. The first claim that
# does not hold ends it with an error.
import json
import os
import tempfile
import urllib.request
from importlib.metadata import version

base = os.environ["WHORL_URL"]
work = tempfile.TemporaryDirectory()
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=work.name, TQDM_DISABLE="1")
import lm_eval
from lm_eval.tasks import TaskManager


def claim(ok, *what):
    if not ok:
        raise AssertionError(what)


def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    return json.load(urllib.request.urlopen(urllib.request.Request(base + path, data, {"Content-Type": "application/json"})))


# What the harness asks first: the control tokens of the tokenizer, and their ids.
info = ask("/tokenizer_info")
model = ask("/v1/models")["data"][0]["id"]
claim(info["model"] == model and info["eos_token"] and info["chat_template"], info)
ids = ask("/tokenize", {"prompt": info["eos_token"], "add_special_tokens": False})["tokens"]
claim(len(ids) == 1 and ask("/detokenize", {"tokens": ids})["prompt"] == info["eos_token"], info, ids)

docs = [
    {"q": "The capital of France is", "choices": [" Paris", " seven", " because"], "answer": 0},
    {"q": "One, two, three,", "choices": [" green", " four", " London"], "answer": 1},
    {"q": "The opposite of hot is", "choices": [" window", " Tuesday", " cold"], "answer": 2},
    {"q": "Monday, Tuesday,", "choices": [" cheese", " Wednesday", " loudly"], "answer": 1},
]
with open(work.name + "/docs.jsonl", "w") as f:
    f.writelines(json.dumps(d) + "\n" for d in docs)
source = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": work.name + "/docs.jsonl"}}, "test_split": "test", "doc_to_text": "{{q}}"}
scored = {**source, "task": "whorl_choices", "output_type": "multiple_choice", "doc_to_choice": "choices", "doc_to_target": "answer", "target_delimiter": "", "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]}
made = {**source, "task": "whorl_answers", "output_type": "generate_until", "doc_to_target": "{{choices[answer]}}", "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8, "do_sample": False}, "metric_list": [{"metric": "bypass"}]}
rolled = {**source, "task": "whorl_words", "output_type": "loglikelihood_rolling", "doc_to_target": "{{q}}", "metric_list": [{"metric": "bits_per_byte"}]}

results = lm_eval.simple_evaluate(
    model="local-completions",
    model_args={"model": model, "base_url": base + "/v1/completions", "tokenizer_backend": "remote", "num_concurrent": 2, "max_length": 512, "max_retries": 1},
    tasks=[scored, made, rolled], task_manager=TaskManager(), bootstrap_iters=0, log_samples=True,
)
claim(results["results"]["whorl_choices"]["acc,none"] == 1.0, results["results"])


# Its scores are those of the model: each is the sum over the choice's tokens behind the question.
def score(question, choice):
    front = ask("/tokenize", {"prompt": question, "add_special_tokens": False})["tokens"]
    both = ask("/tokenize", {"prompt": question + choice, "add_special_tokens": False})["tokens"]
    claim(both[: len(front)] == front, question, choice)
    got = ask("/v1/completions", {"model": model, "prompt": both, "max_tokens": 0, "echo": True, "logprobs": 1})
    return sum(got["choices"][0]["logprobs"]["token_logprobs"][len(front) :])


for sample in results["samples"]["whorl_choices"]:
    d = sample["doc"]
    for choice, (value, _) in zip(d["choices"], sample["filtered_resps"]):
        claim(abs(float(value) - score(d["q"], choice)) < 1e-6, d, choice, value)

# A generated answer is the greedy one, up to the end of its line; what the text of a document costs
# begins behind the begin token, whose id the harness learned above.
for sample in results["samples"]["whorl_answers"]:
    want = ask("/v1/completions", {"model": model, "prompt": sample["doc"]["q"], "max_tokens": 8, "temperature": 0, "stop": ["\n"]})["choices"][0]["text"]
    claim(sample["filtered_resps"] == [want], sample["filtered_resps"], want)
bits = results["results"]["whorl_words"]["bits_per_byte,none"]
claim(0 < bits < 8, bits)
print("ok lm_eval", version("lm_eval"))
