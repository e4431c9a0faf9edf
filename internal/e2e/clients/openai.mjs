// What the programs for Node share: a client of the gateway that WHORL_URL names, and claims.
import OpenAI from "openai";
import { VERSION } from "openai/version";

export const url = process.env.WHORL_URL;
export const client = new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0, timeout: 120_000 });
export const version = VERSION;

export function claim(ok, ...what) {
  if (!ok) throw new Error("claim: " + what.map((w) => (w instanceof Error ? w.stack : JSON.stringify(w))).join(", "));
}

// join reads a stream of chats or completions.
export async function join(stream) {
  const parts = [];
  let usage = null;
  for await (const chunk of stream) {
    for (const c of chunk.choices) parts.push(c.delta?.content ?? c.text ?? "");
    usage = chunk.usage ?? usage;
  }
  return { parts, usage };
}
