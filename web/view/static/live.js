// Keeps a page up to date: sections arrive over an event stream and are merged into the
// page, so that focus, selection and open details stay. Also times that say how long ago,
// and copy buttons. Without this script the page is whole, only not live.
"use strict";

(() => {
  const root = document.documentElement;
  const body = document.body;
  const period = Number(body.dataset.period) || 5000;
  let skew = Number(body.dataset.now) - Date.now(); // the server's clock minus ours

  // How long ago.
  const steps = [[60, 1, "s"], [3600, 60, "min"], [172800, 3600, "h"], [Infinity, 86400, "days"]];
  const ago = (then) => {
    const s = Math.max(0, Math.round((Date.now() + skew - then) / 1000));
    if (s < 2) return "just now";
    const [, size, unit] = steps.find(([limit]) => s < limit);
    return `${Math.floor(s / size)} ${unit} ago`;
  };
  const tick = () => {
    for (const t of document.querySelectorAll("time[datetime]")) {
      const text = ago(Date.parse(t.dateTime));
      if (t.textContent !== text) t.textContent = text;
    }
  };

  // merge makes the children of an element equal to others, changing as little as it can.
  const merge = (old, fresh) => {
    const want = [...fresh.childNodes];
    want.forEach((n, i) => {
      const o = old.childNodes[i];
      if (!o) old.appendChild(n);
      else if (o.nodeType !== n.nodeType || o.nodeName !== n.nodeName) o.replaceWith(n);
      else if (n.nodeType !== Node.ELEMENT_NODE) { if (o.data !== n.data) o.data = n.data; }
      else mergeElement(o, n);
    });
    while (old.childNodes.length > want.length) old.lastChild.remove();
  };
  const mergeElement = (o, n) => {
    if (o.nodeName === "TIME" && o.dateTime === n.dateTime) return; // its text is ours
    for (const a of [...o.attributes]) {
      const ours = a.name === "open" || (o.matches(".copy") && (a.name === "hidden" || a.name === "data-done"));
      if (!ours && !n.hasAttribute(a.name)) o.removeAttribute(a.name);
    }
    for (const a of n.attributes) {
      if (a.name === "hidden" && n.matches(".copy")) continue;
      if (o.getAttribute(a.name) !== a.value) o.setAttribute(a.name, a.value);
    }
    merge(o, n);
  };
  const show = (id, html) => {
    const section = document.getElementById(id);
    if (!section) return;
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    merge(section, fresh.content);
  };

  // The stream.
  const sign = document.getElementById("live");
  let heard = Date.now();
  let staleThere = root.hasAttribute("data-stale"); // the server itself is behind
  const state = (name, text) => {
    sign.hidden = false;
    if (sign.dataset.state === name) return;
    sign.dataset.state = name;
    sign.querySelector(".text").textContent = text;
  };
  const judge = () => {
    const lost = Date.now() - heard > 2 * period;
    root.toggleAttribute("data-stale", lost || staleThere);
    if (!lost) return;
    state("lost", "not live");
    const banner = document.getElementById("banner");
    if (!banner.querySelector(".lost")) {
      const p = document.createElement("p");
      p.className = "banner lost";
      p.setAttribute("role", "alert");
      p.textContent = "The connection to the dashboard is lost. What you see may be out of date; it goes on by itself.";
      banner.prepend(p);
    }
  };
  const update = (e) => {
    const u = JSON.parse(e.data);
    heard = Date.now();
    skew = u.now - heard;
    staleThere = u.stale;
    document.querySelector("#banner .lost")?.remove();
    for (const [id, html] of Object.entries(u.sections ?? {})) show(id, html);
    reveal();
    tick();
    judge();
    state("live", "live");
  };
  let stream = null;
  const open = () => {
    if (stream || !body.dataset.live || document.hidden) return;
    stream = new EventSource(body.dataset.live);
    stream.onmessage = update;
    stream.onerror = () => {
      if (stream?.readyState !== EventSource.CLOSED) return; // it comes back by itself
      stream = null;
      setTimeout(open, 2 * period);
    };
  };
  const close = () => { stream?.close(); stream = null; };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { close(); return; } // a page nobody sees costs nothing
    heard = Math.max(heard, Date.now() - period); // give the stream time to come back
    open();
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);

  // Copying. Buttons are shown only where they work.
  const canCopy = Boolean(navigator.clipboard);
  const reveal = () => {
    for (const b of document.querySelectorAll(".copy[hidden]")) b.hidden = !canCopy;
  };
  document.addEventListener("click", async (e) => {
    const b = e.target.closest?.(".copy");
    if (!b) return;
    try {
      await navigator.clipboard.writeText(b.dataset.copy);
      b.dataset.done = "";
      setTimeout(() => delete b.dataset.done, 1200);
    } catch { /* the text can still be selected by hand */ }
  });

  reveal();
  tick();
  setInterval(() => { tick(); if (body.dataset.live && !document.hidden) judge(); }, 1000);
  open();
})();
