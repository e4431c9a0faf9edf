// The playground: a conversation over the WebSocket protocol. One socket holds one session,
// whose cache lives across turns; the whole conversation goes with each turn, and the node
// computes only what the session does not hold yet. A socket that was lost is opened anew.
"use strict";

(() => {
  const $ = (id) => document.getElementById(`play-${id}`);
  const form = $("form");
  if (!form) return; // no model to talk to
  const log = $("log"), prompt = $("prompt"), send = $("send"), stop = $("stop"), model = $("model");
  const firstLength = 2048; // positions of a session; longer ones are opened when needed

  let messages = [];
  let socket = null; // of the session, open or opening
  let length = 0; // positions of that session
  let turn = null; // the answer that is being written

  const value = (id, otherwise) => {
    const n = Number($(id).value);
    return $(id).value !== "" && Number.isFinite(n) ? n : otherwise;
  };
  const sampling = () => {
    const temperature = value("temperature", 0.7);
    return temperature > 0 ? { temperature, top_p: value("top-p", 0.9) } : { temperature: 0 };
  };
  const withSystem = (all) => {
    const system = $("system").value.trim();
    return system ? [{ role: "system", content: system }, ...all] : all;
  };
  const most = () => Number(model.selectedOptions[0].dataset.max) || 8192;

  const element = (tag, className, text) => {
    const e = document.createElement(tag);
    e.className = className;
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const say = (className, text) => {
    const li = element("div", `turn ${className}`);
    li.append(element("div", "text", text));
    log.append(li);
    $("hello").hidden = true;
    $("new").hidden = false;
    return li;
  };
  const follow = () => window.scrollTo({ top: document.body.scrollHeight });
  const nearEnd = () => window.innerHeight + window.scrollY > document.body.scrollHeight - 160;

  // The session.
  const drop = () => {
    if (!socket) return;
    socket.onmessage = socket.onclose = socket.onerror = null;
    socket.close();
    socket = null;
  };
  const address = () => new URL(form.dataset.socket, location.href.replace(/^http/, "ws"));
  const connect = (want) => {
    drop();
    length = Math.min(want, most());
    const token = $("token").value.trim();
    socket = token ? new WebSocket(address(), ["whorl", `bearer.${token}`]) : new WebSocket(address());
    const mine = socket;
    mine.onmessage = (e) => { if (mine === socket) receive(JSON.parse(e.data)); };
    mine.onclose = () => { if (mine === socket) { socket = null; lost(); } };
    mine.onopen = () => {
      mine.send(JSON.stringify({ type: "open_inference_session", model: model.value, max_length: length }));
      if (turn) ask();
    };
  };
  const ask = () => {
    // An answer may take half of the longest session: the rest is for the conversation.
    const room = Math.max(1, Math.floor(Math.min(value("tokens", 512), turn.room || most() / 2)));
    const frame = {
      type: "generate", messages: withSystem(messages), stream: true, max_new_tokens: room,
      do_sample: value("temperature", 0.7) > 0,
    };
    if (frame.do_sample) Object.assign(frame, sampling());
    socket.send(JSON.stringify(frame));
  };

  // A turn.
  const begin = (text) => {
    messages.push({ role: "user", content: text });
    say("asked", text);
    const li = say("answered", "");
    li.dataset.testid = "answer";
    li.dataset.done = "false";
    li.setAttribute("aria-busy", "true");
    const meta = element("div", "meta", "waiting for the first token");
    li.append(meta);
    turn = { li, out: li.firstChild, meta, text: "", tokens: 0, began: performance.now(), first: 0, last: 0, firstTokens: 0, room: 0, gone: 0, note: null, retried: false };
    send.hidden = true;
    stop.hidden = false;
    model.disabled = true;
    curl();
    follow();
    if (socket?.readyState === WebSocket.OPEN) ask();
    else connect(Math.max(length, firstLength));
  };
  // Tokens that stay away are explained: the node looks for another server meanwhile.
  const patience = 2500; // ms
  setInterval(() => {
    if (!turn || turn.stopping) return;
    const waited = performance.now() - (turn.last || turn.began);
    if (waited < patience) return;
    const why = turn.last ? "a server may be lost and another one sought" : "the servers are busy or read a long text";
    tell([...(turn.tokens ? numbers() : []), `no token for ${Math.round(waited / 1000)} s: ${why}`]);
  }, 1000);
  const stopReasons = { stop: "stop text", eos: "end of the answer", length: "token limit", cancelled: "stopped by you" };
  const numbers = () => {
    const t = turn, parts = [`${t.tokens} token${t.tokens === 1 ? "" : "s"}`];
    const seconds = (t.last - t.first) / 1000;
    if (t.tokens > t.firstTokens && seconds > 0) parts.push(`${((t.tokens - t.firstTokens) / seconds).toFixed(1)} tok/s`);
    if (t.first) parts.push(`first after ${Math.round(t.first - t.began)} ms`);
    return parts;
  };
  const tell = (parts) => turn.meta.replaceChildren(...parts.map((p) => element("span", "", p)));
  const end = () => {
    const { li, text } = turn;
    li.dataset.done = "true";
    li.removeAttribute("aria-busy");
    if (text) messages.push({ role: "assistant", content: text });
    else messages.pop(); // a question without an answer is no part of the conversation
    turn = null;
    send.hidden = false;
    stop.hidden = true;
    model.disabled = false;
    prompt.focus({ preventScroll: true });
  };
  const fail = (message) => {
    turn.li.append(element("div", "failed", message));
    turn.li.dataset.error = "true";
    tell(turn.tokens ? numbers() : []);
    end();
  };

  const receive = (m) => {
    if (!turn) return; // such as: nothing was asked for a while
    if (m.ok === false) { refused(m); return; }
    if (typeof m.outputs !== "string") return; // the session is open, or a command was heard
    const stick = nearEnd();
    const now = performance.now();
    if (m.token_count > 0) {
      if (!turn.first) { turn.first = now; turn.firstTokens = m.token_count; }
      turn.last = now;
      turn.tokens += m.token_count;
    }
    turn.text += m.outputs;
    turn.out.append(m.outputs);
    const parts = turn.tokens ? numbers() : ["waiting for the first token"];
    if (!m.stop) { tell(parts); if (stick) follow(); return; }
    if (m.stop_reason) parts.push(stopReasons[m.stop_reason] ?? m.stop_reason);
    if (m.reroutes) parts.push(`re-routed ${m.reroutes} time${m.reroutes === 1 ? "" : "s"}`);
    if (m.route?.length) parts.push(`by ${m.route.map((h) => `…${h.peer.slice(-6)} ${h.blocks}`).join(" → ")}`);
    tell(parts);
    end();
    if (stick) follow();
  };
  const refused = (m) => {
    const text = m.error?.message || m.traceback || "refused without a reason";
    const tooLong = m.error?.code === "max_length" || /Maximum length exceeded/.test(m.traceback ?? "");
    if (tooLong && !turn.text && length < most()) { // a longer session takes the conversation
      connect(length * 4);
      return;
    }
    const { max_length: whole = 0, position = 0, prompt_tokens: asked = 0 } = m.error ?? {};
    const room = whole - position - asked;
    if (tooLong && !turn.text && whole > 0 && socket?.readyState === WebSocket.OPEN) {
      const next = messages.findIndex((m, i) => i > 0 && m.role === "user");
      if (room < 64 && next > 0) { // the oldest turn goes; the system message stays
        messages.splice(0, next);
        turn.gone += next;
        turn.note ??= turn.li.parentNode.insertBefore(element("p", "hint", ""), turn.li.previousSibling);
        turn.note.textContent = `The oldest ${turn.gone} messages were let go: the conversation is longer than ${whole} tokens.`;
        turn.room = 0;
        ask();
        return;
      }
      if (!turn.room && room > 0) { // a shorter answer still fits
        turn.room = room;
        ask();
        return;
      }
    }
    fail(tooLong ? `${text.replace(/\.?$/, ".")} Ask for fewer tokens, or send less.` : text);
  };
  const lost = () => {
    if (!turn) return;
    if (!turn.text && !turn.retried) { // nothing was shown yet: once more, silently
      turn.retried = true;
      setTimeout(() => { if (turn && !socket) connect(Math.max(length, firstLength)); }, 500);
      return;
    }
    fail("The connection was lost. Send again to go on.");
  };

  // What the visitor does.
  const submit = () => {
    const text = prompt.value.trim();
    if (!text || turn) return;
    prompt.value = "";
    grow();
    begin(text);
  };
  form.addEventListener("submit", (e) => { e.preventDefault(); submit(); });
  prompt.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    submit();
  });
  const grow = () => { prompt.rows = Math.min(10, prompt.value.split("\n").length); };
  prompt.addEventListener("input", grow);
  stop.addEventListener("click", () => {
    if (!turn) return;
    turn.stopping = true;
    if (socket?.readyState === WebSocket.OPEN) {
      socket.send(JSON.stringify({ type: "cancel" }));
      const cancelled = turn;
      setTimeout(() => { if (turn === cancelled) { drop(); tell([...numbers(), stopReasons.cancelled]); end(); } }, 3000);
    } else { drop(); tell([stopReasons.cancelled]); end(); }
  });
  $("new").addEventListener("click", () => {
    drop();
    if (turn) end();
    messages = [];
    log.replaceChildren();
    $("hello").hidden = false;
    $("new").hidden = true;
    length = 0;
    curl();
    prompt.focus();
  });
  model.addEventListener("change", () => { drop(); length = 0; curl(); });
  $("token").addEventListener("change", () => { drop(); curl(); });
  for (const id of ["temperature", "top-p", "tokens", "system"]) $(id).addEventListener("input", () => curl());

  // The same question as a command.
  const quote = (s) => `'${s.replaceAll("'", "'\\''")}'`;
  const curl = () => {
    const all = messages.length ? messages : [{ role: "user", content: "Hello!" }];
    const body = JSON.stringify({ model: model.value, stream: true, ...sampling(), max_tokens: value("tokens", 512), messages: withSystem(all) });
    const bearer = $("token").value.trim() ? " \\\n  -H \"Authorization: Bearer $WHORL_HTTP_TOKEN\"" : "";
    const text = `curl -N ${form.dataset.curl} \\\n  -H 'Content-Type: application/json'${bearer} \\\n  -d ${quote(body)}`;
    $("curl").textContent = text;
    const copy = $("curl").closest(".command").querySelector(".copy");
    if (copy) copy.dataset.copy = text;
  };
  curl();
  window.addEventListener("pagehide", drop);
})();
