// Asks a gateway as programs do that use OpenAI's own package for Node. WHORL_URL is the gateway.
// The first claim that does not hold ends it with an error.
import OpenAI from "openai";
import { claim, client, join, url, version } from "./openai.mjs";

// The list of models, and how long a session the swarm can hold.
const models = (await client.models.list()).data;
claim(models.length === 1, models);
const [model] = models;
claim((await client.models.retrieve(model.id)).context_length === model.context_length && model.context_length > 0, model);
const ask = { model: model.id, temperature: 0, seed: 1 };
const say = [{ role: "user", content: "Hello \u{1F600}, who are you?" }];

// A chat, plain and streamed, is the same text; usage comes when it is asked for.
const plain = await client.chat.completions.create({ messages: say, max_tokens: 24, ...ask });
const text = plain.choices[0].message.content;
const { parts, usage } = await join(await client.chat.completions.create({ messages: say, max_tokens: 24, stream: true, stream_options: { include_usage: true }, ...ask }));
claim(parts.join("") === text && text, parts, text);
claim(usage.completion_tokens === plain.usage.completion_tokens && usage.completion_tokens > 0, usage);

// The package's own helper puts the same message together, and tells of it piece by piece.
const helped = client.chat.completions.stream({ messages: say, max_tokens: 24, ...ask });
let heard = "";
helped.on("content", (delta) => (heard += delta));
claim((await helped.finalContent()) === text && heard === text, heard, text);

// A stream that its reader leaves ends there, and the next answer is whole.
const left = await client.chat.completions.create({ messages: say, max_tokens: 24, stream: true, ...ask });
for await (const _ of left) break;
claim((await client.chat.completions.create({ messages: say, max_tokens: 24, ...ask })).choices[0].message.content === text);

// Log-probabilities of a chat: the bytes of its tokens, joined, are its text. A toy model also
// writes bytes that are none: the text then has marks for them.
let texts = 0;
for (let i = 0; i < 8; i++) {
  const top = i % 4;
  const question = [{ role: "user", content: `${i} times?` }];
  const c = (await client.chat.completions.create({ messages: question, max_tokens: 12, logprobs: true, ...(top ? { top_logprobs: top } : {}), ...ask })).choices[0];
  const joined = Buffer.from(c.logprobs.content.flatMap((t) => t.bytes ?? [])).toString();
  claim(c.message.content.includes("\ufffd") || joined === c.message.content, joined, c.message.content);
  texts += !c.message.content.includes("\ufffd");
  claim(c.logprobs.content.every((t) => t.top_logprobs.length === top), c.logprobs);
}
claim(texts > 0);

// A turn that only called a tool, with what models make of arguments.
for (const args of ['{"city": "Oslo"}', "", "null", "not { json"]) {
  const call = { id: "call00001", type: "function", function: { name: "weather", arguments: args } };
  const history = [...say, { role: "assistant", content: null, tool_calls: [call] }, { role: "tool", tool_call_id: "call00001", content: "rain" }];
  claim((await client.chat.completions.create({ messages: history, max_tokens: 4, ...ask })).choices.length === 1, args);
}

// Completions: more prompts than are worked on at a time, and more answers, each in its place.
const prompts = Array.from({ length: 9 }, (_, i) => `Number ${i}`);
const many = await client.completions.create({ prompt: prompts, max_tokens: 4, n: 2, ...ask });
claim(many.choices.every((c, i) => c.index === i) && many.choices.length === 18, many);
for (const [i, prompt] of prompts.entries()) {
  const one = (await client.completions.create({ prompt, max_tokens: 4, ...ask })).choices[0].text;
  claim(many.choices[2 * i].text === one, prompt, one, many.choices[2 * i].text);
}
const streamed = await join(await client.completions.create({ prompt: prompts[3], max_tokens: 4, stream: true, ...ask }));
claim(streamed.parts.join("") === many.choices[6].text, streamed);

// Names of tokens differ, offsets lie in the text.
const named = (await client.completions.create({ prompt: "\u{1F600}\u{1F680}", max_tokens: 12, logprobs: 5, ...ask })).choices[0];
claim(named.logprobs.top_logprobs.every((top) => Object.keys(top).length === 5), named.logprobs.top_logprobs);
claim(named.logprobs.text_offset.every((o) => o >= 0 && o <= [...named.text].length), named.logprobs.text_offset, named.text);

// The scores of a prompt: the model's own continuation of a prompt scores as it did when it was
// generated.
const prompt = "The quick brown fox";
const ids = (await client.post(url + "/tokenize", { body: { prompt } })).tokens;
const first = (await client.completions.create({ prompt, max_tokens: 6, logprobs: 1, return_token_ids: true, ignore_eos: true, ...ask })).choices[0];
const whole = [...ids, ...first.token_ids];
const scores = (await client.completions.create({ prompt: whole, max_tokens: 0, echo: true, logprobs: 1, ...ask })).choices[0].logprobs;
claim(scores.token_logprobs[0] === null && scores.tokens.length === whole.length, scores);
claim(String(scores.token_logprobs.slice(ids.length)) === String(first.logprobs.token_logprobs), scores.token_logprobs, first.logprobs.token_logprobs);

// Vectors: the package asks for them in base64 unless it is told otherwise.
for (const encoding_format of [undefined, "float", "base64"]) {
  const v = (await client.embeddings.create({ model: model.id, input: ["A cat", "A dog"], encoding_format })).data;
  const floats = encoding_format === "base64" ? [...new Float32Array(new Uint8Array(Buffer.from(v[0].embedding, "base64")).buffer)] : v[0].embedding;
  claim(v.length === 2 && Math.abs(floats.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-3, encoding_format, floats.length);
}

// What cannot be done is said of its field, by the package's own errors; too much is said with both
// numbers.
for (const [bad, field] of [[{ guided_grammar: "root ::= x" }, "guided_grammar"], [{ top_p: 2 }, "top_p"], [{ suffix: "x" }, "suffix"]]) {
  const e = await client.completions.create({ prompt: "x", ...ask, ...bad }).then(() => null, (e) => e);
  claim(e instanceof OpenAI.BadRequestError && e.param === field && e.message.includes(field) && e.requestID, e);
}
const long = await client.completions.create({ prompt: Array(model.context_length).fill(5), max_tokens: 9, ...ask }).then(() => null, (e) => e);
const want = `maximum context length is ${model.context_length} tokens. However, you requested ${model.context_length + 9} tokens`;
claim(long instanceof OpenAI.BadRequestError && long.code === "context_length_exceeded" && long.message.includes(want), long);
const nobody = await client.chat.completions.create({ ...ask, model: "gpt-4", messages: say }).then(() => null, (e) => e);
claim(nobody instanceof OpenAI.NotFoundError && nobody.message.includes("gpt-4"), nobody);
console.log("ok openai for Node", version);
