// Keys, times in words, and what says that the page has changed. Every page works without it.
"use strict";
(() => {
  const items = () => [...document.querySelectorAll("[data-item]")].filter((one) => one.offsetParent !== null);
  const current = () => document.activeElement?.closest?.("[data-item]") || items().find((one) => one.id === last);
  let last = location.hash.slice(1);
  let waitsForGo = 0;

  const select = (item) => {
    if (!item) return;
    last = item.id;
    item.focus({ preventScroll: true });
    const place = item.getBoundingClientRect();
    if (place.top < 64 || place.bottom > innerHeight) item.scrollIntoView({ block: "start" });
  };
  const move = (step) => {
    const all = items(), at = all.indexOf(current());
    select(all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))]);
  };
  const go = (key) => document.querySelector(`[data-go="${CSS.escape(key)}"]`)?.click();
  const help = () => { const box = document.getElementById("help"); if (!box.open) box.showModal(); };

  const actions = {
    j: () => move(1),
    k: () => move(-1),
    o: () => current()?.querySelector("[data-open]")?.click(),
    c: () => (current() || items()[0])?.querySelector("[data-write]")?.focus(),
    "?": help,
    "/": () => document.querySelector("[data-search]")?.focus(),
  };

  addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "Escape" && typing) {
      select(event.target.closest("[data-item]")) ?? event.target.blur();
      return;
    }
    if (typing && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.target.closest("form")?.querySelector("button")?.focus();
      event.preventDefault();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    let done = true;
    if (event.timeStamp - waitsForGo < 10000) { waitsForGo = 0; go(event.key); }
    else if (event.key === "g") waitsForGo = event.timeStamp;
    else if (actions[event.key]) actions[event.key]();
    else if (/^[1-9]$/.test(event.key)) current()?.querySelector(`[data-key="${event.key}"]`)?.focus();
    else done = false;
    if (done) event.preventDefault();
  });

  document.addEventListener("click", (event) => { if (event.target.closest("[data-help]")) help(); });
  document.addEventListener("focusin", (event) => { const item = event.target.closest?.("[data-item]"); if (item) last = item.id; });

  // Times
  const units = [[60, "s"], [60, "min"], [24, "h"], [30, "d"], [12, "mo"], [Infinity, "y"]];
  const ago = (seconds) => {
    let value = Math.max(0, seconds);
    for (const [size, name] of units) { if (value < size) return `${Math.floor(value)} ${name} ago`; value /= size; }
  };
  const tell = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const text = ago((Date.now() - Date.parse(time.dateTime)) / 1000);
      if (text && time.textContent !== text) time.textContent = text;
    }
  };

  // What changes while the page is open: focus, open details and what is new.
  let before = null;
  const swapped = (target) => {
    for (const id of before?.open ?? []) document.getElementById(id)?.setAttribute("open", "");
    for (const id of before?.shut ?? []) document.getElementById(id)?.removeAttribute("open");
    if (before) for (const item of target.querySelectorAll?.("[data-item]") ?? []) if (!before.items.has(item.id)) item.classList.add("is-new");
    if (before?.focus && !document.activeElement?.matches("button, a, textarea, input, [data-item]"))
      document.getElementById(before.focus)?.focus({ preventScroll: true });
    if (before) scrollTo({ left: before.x, top: before.y, behavior: "instant" });
    before = null;
    tell();
  };
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (event.target.id === "live-note") return;
    const details = [...document.querySelectorAll("details[id]")];
    before = {
      items: new Set(items().map((one) => one.id)),
      open: details.filter((one) => one.open).map((one) => one.id),
      shut: details.filter((one) => !one.open).map((one) => one.id),
      focus: document.activeElement?.id || document.activeElement?.closest?.("[id]")?.id,
      x: scrollX, y: scrollY,
    };
  });
  let hide = 0;
  document.addEventListener("htmx:sseMessage", (event) => {
    if (event.target.id !== "live-note") { swapped(event.target); return; }
    event.target.classList.add("is-shown");
    clearTimeout(hide);
    hide = setTimeout(() => event.target.classList.remove("is-shown"), 4000);
  });

  const start = () => {
    for (const button of document.querySelectorAll("[data-help]")) button.hidden = false;
    tell();
    setInterval(tell, 15000);
    if (last) select(document.getElementById(last)?.closest("[data-item]"));
  };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", start); else start();
})();
