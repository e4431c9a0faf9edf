// The page about the API: finds routes and sends requests to this listener, and to no other.
"use strict";

(() => {
  const most = 256 * 1024; // characters of an answer that are shown
  const token = document.getElementById("ref-token");
  const find = document.getElementById("ref-find");
  const tools = document.getElementById("ref-tools");
  if (!tools) return;
  tools.hidden = false;
  tools.addEventListener("submit", (e) => e.preventDefault());

  find.addEventListener("input", () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let any = false;
    for (const group of document.querySelectorAll(".ref-group")) {
      let some = false;
      for (const route of group.querySelectorAll(".route")) {
        const text = route.querySelector("summary").textContent.toLowerCase();
        route.hidden = !words.every((w) => text.includes(w));
        some = some || !route.hidden;
      }
      group.hidden = !some;
      any = any || some;
    }
    document.getElementById("ref-none").hidden = any;
  });

  // A link to a route opens it.
  const open = () => {
    const at = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (at && at.classList.contains("route")) {
      at.open = true;
      at.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();

  const quote = (s) => "'" + s.replaceAll("'", "'\\''") + "'";

  // request is what a form asks for now.
  const request = (form) => {
    let path = form.dataset.path;
    const query = new URLSearchParams();
    const headers = {};
    for (const input of form.querySelectorAll("input")) {
      const { name, value } = input;
      if (input.dataset.in === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
      else if (value === "") continue;
      else if (input.dataset.in === "query") query.append(name, value);
      else if (input.dataset.in === "header") headers[name] = value;
    }
    if (String(query)) path += "?" + query;
    const body = form.querySelector("textarea");
    const out = { method: form.dataset.method, headers };
    if (body && body.value.trim() !== "") {
      headers["Content-Type"] = body.dataset.media;
      out.body = body.value;
    }
    return [path, out];
  };

  // curl is the same on a command line, without the token.
  const curl = (path, r) => {
    let line = `curl -N ${r.method === "GET" ? "" : `-X ${r.method} `}${quote(location.origin + path)}`;
    for (const [name, value] of Object.entries(r.headers)) line += ` \\\n  -H ${quote(`${name}: ${value}`)}`;
    if (token.value) line += ` \\\n  -H "Authorization: Bearer $TOKEN"`;
    if (r.body) line += ` \\\n  -d ${quote(r.body)}`;
    return line;
  };

  for (const form of document.querySelectorAll("form.try")) {
    form.hidden = false;
    const sent = form.querySelector(".sent");
    const got = form.querySelector(".got");
    const stop = form.querySelector(".stop");
    const outcome = form.querySelector(".outcome");
    const show = () => { sent.textContent = curl(...request(form)); };
    form.addEventListener("input", show);
    show();
    form.addEventListener("submit", async (e) => {
      e.preventDefault();
      const [path, r] = request(form);
      const control = new AbortController();
      stop.hidden = false;
      stop.onclick = () => control.abort();
      got.hidden = true;
      outcome.textContent = "Sent.";
      const began = performance.now();
      if (token.value) r.headers.Authorization = "Bearer " + token.value;
      try {
        const answer = await fetch(path, { ...r, signal: control.signal, redirect: "manual", credentials: "omit", cache: "no-store" });
        const say = (more) => { outcome.textContent = `${answer.status} ${answer.statusText}, ${Math.round(performance.now() - began)} ms${more}`; };
        say("");
        got.hidden = false;
        got.textContent = "";
        let text = "";
        const decode = new TextDecoder();
        const reader = answer.body && answer.body.getReader();
        for (let cut = false; reader && !cut;) {
          const { done, value } = await reader.read();
          if (done) break;
          text += decode.decode(value, { stream: true });
          if (text.length > most) {
            text = text.slice(0, most);
            cut = true;
            control.abort();
            say(", cut");
          }
          got.textContent = text;
        }
        if ((answer.headers.get("Content-Type") || "").includes("json")) {
          try { got.textContent = JSON.stringify(JSON.parse(text), null, 2); } catch { /* several values, or half of one */ }
        }
      } catch (err) {
        outcome.textContent = control.signal.aborted ? "Stopped." : `No answer: ${err.message}`;
      }
      stop.hidden = true;
    });
  }
})();
