// Tools, answers by a schema and Responses, with OpenAI's own package for Node and zod. WHORL_URL is
// the gateway. The first claim that does not hold ends it with an error.
import OpenAI from "openai";
import { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { claim, client, version } from "./openai.mjs";

const model = (await client.models.list()).data[0].id;
const say = [{ role: "user", content: "Ada Lovelace was 36. She was a person." }];
const Person = z.object({ name: z.string(), age: z.number().int(), alive: z.boolean() });
const Weather = z.object({ city: z.string(), days: z.number().int() });

// made is an answer whose text ends before max_tokens does.
async function made(kind) {
  for (let seed = 0; seed < 8; seed++) {
    try {
      const got = await kind(seed);
      if (got) return got;
    } catch (e) {
      if (!(e instanceof OpenAI.LengthFinishReasonError)) throw e;
    }
  }
  throw new Error("no answer came to its end: " + kind);
}

// A call that max_tokens cut off is not parsed by the package: its JSON is no whole one.
const cut = (e) => {
  if (e instanceof SyntaxError) return null;
  throw e;
};

// .parse() of chats, with a schema that zod wrote.
const person = await made(async (seed) => (await client.chat.completions.parse({ model, messages: say, max_tokens: 120, seed, response_format: zodResponseFormat(Person, "person") })).choices[0].message.parsed);
claim(Number.isInteger(person.age) && typeof person.alive === "boolean" && typeof person.name === "string", person);

// A form with a pattern, and what cannot be kept of one.
const Code = z.object({ code: z.string().regex(/^[A-Z]{2}-[0-9]{3}$/) });
const coded = await client.chat.completions.parse({ model, messages: say, max_tokens: 60, response_format: zodResponseFormat(Code, "code") });
claim(/^[A-Z]{2}-[0-9]{3}$/.test(coded.choices[0].message.parsed.code), coded);
const refused = await client.chat.completions
  .create({ model, messages: say, response_format: { type: "json_schema", json_schema: { name: "x", schema: { not: {} } } } })
  .then(() => null, (e) => e);
claim(refused instanceof OpenAI.BadRequestError && refused.message.includes("not"), refused);

// A streamed answer of a form is parsed as it ends.
const streamedPerson = await made((seed) => client.chat.completions.stream({ model, messages: say, max_tokens: 120, seed, response_format: zodResponseFormat(Person, "person") }).finalChatCompletion().then((c) => c.choices[0].message.parsed));
claim(Number.isInteger(streamedPerson.age), streamedPerson);

// Tools that have to be called: plain, and streamed in pieces.
const tools = [zodFunction({ name: "Weather", parameters: Weather, description: "The weather of a city." })];
const called = await made((seed) => client.chat.completions.parse({ model, messages: say, max_tokens: 100, seed, tools, tool_choice: "required", parallel_tool_calls: false }).then((c) => c.choices[0].finish_reason === "tool_calls" && c.choices[0].message.tool_calls[0]));
claim(called.function.name === "Weather" && called.id && Number.isInteger(called.function.parsed_arguments.days), called);
const pieces = await made(async (seed) => {
  let [name, args, finish] = ["", "", null];
  for await (const chunk of await client.chat.completions.create({ model, messages: say, max_tokens: 100, seed, tools, tool_choice: { type: "function", function: { name: "Weather" } }, stream: true })) {
    for (const c of chunk.choices) {
      for (const piece of c.delta.tool_calls ?? []) {
        name += piece.function.name ?? "";
        args += piece.function.arguments ?? "";
      }
      finish = c.finish_reason ?? finish;
    }
  }
  claim(name === "Weather", name);
  return finish === "tool_calls" && Weather.parse(JSON.parse(args));
});
claim(Number.isInteger(pieces.days), pieces);

// The package's loop: the model calls, a function here answers, and the model goes on.
const asked = [];
const answered = await made((seed) => {
  const weather = { type: "function", function: { name: "weather", parse: (text) => Weather.parse(JSON.parse(text)), parameters: z.toJSONSchema(Weather), function: (args) => (asked.push(args), "rain in " + args.city) } };
  const runner = client.chat.completions.runTools({ model, messages: [{ role: "user", content: "Is it raining in Oslo?" }], tools: [weather], tool_choice: { type: "function", function: { name: "weather" } }, parallel_tool_calls: false, max_tokens: 100, seed });
  return runner.finalFunctionToolCallResult().catch(() => null); // the call was cut off
});
claim(answered.startsWith("rain in ") && asked.some((a) => answered === "rain in " + a.city), answered, asked);

// Responses: stored, gone on from, listed, deleted.
const one = await client.responses.create({ model, input: "Hello", max_output_tokens: 8, seed: 1 });
claim((await client.responses.retrieve(one.id)).output_text === one.output_text && one.output_text, one);
const two = await client.responses.create({ model, input: "And you?", previous_response_id: one.id, max_output_tokens: 8 });
claim(two.usage.input_tokens > one.usage.input_tokens && two.previous_response_id === one.id, two);
const items = [];
for await (const item of client.responses.inputItems.list(two.id)) items.push(item);
claim(items.length === 1 && items[0].content[0].text === "And you?", items);
await client.responses.delete(one.id);
const gone = await client.responses.retrieve(one.id).then(() => null, (e) => e);
claim(gone instanceof OpenAI.NotFoundError, gone);
const passing = await client.responses.create({ model, input: "Hello", store: false, max_output_tokens: 8 });
claim(await client.responses.retrieve(passing.id).then(() => false, (e) => e instanceof OpenAI.NotFoundError), passing);

// Streamed: the events, and what the package makes of them.
let deltas = "";
const events = [];
const stream = client.responses.stream({ model, input: "Hello", max_output_tokens: 8, seed: 3 });
for await (const e of stream) {
  events.push(e.type);
  if (e.type === "response.output_text.delta") deltas += e.delta;
}
const last = await stream.finalResponse();
claim(last.output_text === deltas && ["response.completed", "response.incomplete"].includes(events.at(-1)), events, last);

// Responses by a schema, and with functions.
const parsed = await made((seed) => client.responses.parse({ model, input: "Ada was 36.", max_output_tokens: 120, seed, text: { format: zodTextFormat(Person, "person") } }).then((r) => r.output_parsed, cut));
claim(Number.isInteger(parsed.age), parsed);
const functions = [zodResponsesFunction({ name: "Weather", parameters: Weather })];
const call = await made((seed) => client.responses.parse({ model, input: "Is it raining in Oslo?", max_output_tokens: 100, seed, tools: functions, tool_choice: "required", parallel_tool_calls: false }).then((r) => r.status === "completed" && { r, call: r.output.find((o) => o.type === "function_call") }, cut));
claim(call.call.name === "Weather" && Number.isInteger(call.call.parsed_arguments.days), call);
const result = [{ type: "function_call_output", call_id: call.call.call_id, output: "rain" }];
const goneOn = await client.responses.create({ model, input: result, previous_response_id: call.r.id, max_output_tokens: 8, seed: 1, tools: functions, tool_choice: "none" });
claim(goneOn.output[0].type === "message" && goneOn.previous_response_id === call.r.id, goneOn);
console.log("ok openai for Node", version, "with zod");
