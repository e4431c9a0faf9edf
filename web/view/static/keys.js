// The page about keys: asks this listener, and no other, for the keys and what they used, again and
// again while somebody looks.
"use strict";

(() => {
  const every = 2000; // ms
  const most = 2000; // keys that are shown
  const tools = document.getElementById("keys-tools");
  const token = document.getElementById("keys-token");
  const note = document.getElementById("keys-note");
  const table = document.getElementById("keys-table");
  tools.hidden = false;

  const say = (text) => {
    note.textContent = text;
    note.hidden = !text;
  };
  const moment = (at) => (at ? new Date(at).toLocaleString() : "never");
  const limits = (k) => [
    k.requests_per_minute && `${k.requests_per_minute} requests a minute`,
    k.tokens_per_minute && `${k.tokens_per_minute} tokens a minute`,
    k.answers && `${k.answers} answers at a time`,
  ].filter(Boolean).join(", ") || "none";

  // all are the keys, page by page.
  const all = async () => {
    const headers = token.value ? { Authorization: `Bearer ${token.value}` } : {};
    const keys = [];
    for (let cursor = ""; keys.length < most;) {
      const answer = await fetch("/api/v1/keys?limit=200" + (cursor && `&cursor=${encodeURIComponent(cursor)}`), { headers, cache: "no-store" });
      const body = await answer.json().catch(() => ({}));
      if (answer.status === 401) throw new Error("This listener asks for its access token.");
      if (!answer.ok) throw new Error(body.detail || body.title || `The listener says ${answer.status}.`);
      keys.push(...body.items);
      if (!(cursor = body.next_cursor || "")) break;
    }
    return keys;
  };

  const row = (k) => {
    const tr = document.createElement("tr");
    tr.dataset.testid = "key";
    tr.dataset.name = k.name;
    const cells = [k.name, k.scopes.join(", "), k.usage.requests, k.usage.prompt_tokens, k.usage.completion_tokens, k.usage.running, limits(k), moment(k.used), moment(k.expires)];
    for (const [i, text] of cells.entries()) {
      const cell = document.createElement(i === 0 ? "th" : "td");
      if (i === 0) cell.scope = "row";
      cell.textContent = text;
      tr.append(cell);
    }
    return tr;
  };

  let timer = 0;
  const look = async () => {
    clearTimeout(timer);
    try {
      const keys = await all();
      table.tBodies[0].replaceChildren(...keys.map(row));
      table.hidden = keys.length === 0;
      say(keys.length === 0 ? "There are no keys yet: whorl keys add NAME makes one." : keys.length >= most ? `Only ${most} keys are shown.` : "");
    } catch (e) {
      table.hidden = true;
      say(e instanceof TypeError ? "This node does not answer." : e.message);
    }
    clearTimeout(timer);
    timer = setTimeout(() => document.hidden || look(), every);
  };
  document.addEventListener("visibilitychange", () => document.hidden || look());
  tools.addEventListener("submit", (e) => {
    e.preventDefault();
    look();
  });
  token.addEventListener("change", look);
  look();
})();
