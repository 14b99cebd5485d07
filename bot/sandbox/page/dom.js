// DOM helpers. Text is inserted as text only, URLs only if they are http, https or tg.

const PATHS = {
  back: "M15 5l-7 7 7 7",
  close: "M6 6l12 12M18 6L6 18",
  down: "M6 9l6 6 6-6",
  send: "M4 12l16-8-6 16-3-7-7-1z",
  edit: "M5 19l1-4L16 5l3 3L9 18l-4 1zM14 7l3 3",
  reply: "M10 7L5 12l5 5M5 12h9c3 0 5 2 5 5",
  check: "M5 12l5 5 9-10",
  forward: "M14 7l5 5-5 5M19 12h-9c-3 0-5 2-5 5",
  link: "M10 14a4 4 0 005.6 0l3-3a4 4 0 00-5.6-5.6l-1 1M14 10a4 4 0 00-5.6 0l-3 3a4 4 0 005.6 5.6l1-1",
  channel: "M4 10v4l3 .5L15 19V5L7 9.5 4 10zM18 9a4 4 0 010 6",
  lock: "M7 11V8a5 5 0 0110 0v3M6 11h12v8H6z",
  group: "M9 11a3 3 0 100-6 3 3 0 000 6zM3 19a6 6 0 0112 0M16 5.5a3 3 0 010 5.5M17 14a6 6 0 014 5",
  slash: "M15 5L9 19",
  clip: "M20 11l-8.5 8.5a5 5 0 01-7-7L13 4a3.4 3.4 0 015 5l-8.5 8.5a1.7 1.7 0 01-2.4-2.4L15 7.5",
  file: "M7 3h7l4 4v14H7zM14 3v4h4",
  image: "M4 6h16v12H4zM4 16l5-5 4 4 3-3 4 4M15 9.5h.01",
  stop: "M7 7h10v10H7z",
  sources: "M5 6h14M5 12h9M5 18h6M18 15a3 3 0 100 6 3 3 0 000-6zM20.3 20.3L22 22",
  open: "M14 5h5v5M19 5l-8 8M10 6H5v13h13v-5",
};

export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

export const button = (name, label, onclick, kind = "round") =>
  make("button", { class: kind, type: "button", title: label, "aria-label": label, onclick }, icon(name));

// Return a safe URL, or null.
export function followed(url) {
  try {
    const parsed = new URL(/^[a-z][a-z0-9+.-]*:/i.test(url) ? url : `https://${url}`);
    return ["http:", "https:", "tg:"].includes(parsed.protocol) ? parsed : null;
  } catch {
    return null;
  }
}

export function avatar(chat, kind = "") {
  const name = (chat.title ?? chat.first_name ?? "?").replace(/[^\p{L}\p{N} ]/gu, "").trim() || "?";
  const letters = name.split(/\s+/).slice(0, 2).map((word) => [...word][0]).join("").toUpperCase();
  const tone = Math.abs([...String(chat.id)].reduce((sum, c) => sum * 31 + c.charCodeAt(0), 7)) % 7;
  const look = `avatar tone${chat.is_bot ? "-bot" : tone} ${kind}`;
  return make("span", { class: look, "aria-hidden": "true" }, chat.is_bot ? "”" : letters);
}

export function toast(text) {
  const box = make("div", { class: "toast", text });
  document.getElementById("toasts").append(box);
  setTimeout(() => box.classList.add("gone"), 3200);
  setTimeout(() => box.remove(), 3600);
}

// Keyed update: unchanged elements are kept, so that selections, folded quotes and animations survive.
// Make `rows` ({key, sign, build}) the children of a container; returns the current rows by key.
export function updateByKey(container, kept, rows) {
  const now = new Map();
  let spot = container.firstChild;
  for (const { key, sign, build } of rows) {
    const old = kept.get(key);
    const row = old?.sign === sign ? old : { sign, element: build() };
    if (old && row !== old) {
      if (spot === old.element) spot = old.element.nextSibling;
      old.element.remove();
    }
    if (row.element === spot) spot = spot.nextSibling;
    else container.insertBefore(row.element, spot);
    now.set(key, row);
  }
  for (const [key, row] of kept) if (!now.has(key)) row.element.remove();
  return now;
}
