// Render a message's text with its entities. Offsets are UTF-16 units, like JavaScript's own.

import { followed, make } from "./dom.js";
import { say } from "./translations.js";

const TAGS = new Map([ // a Map, since every object has a "constructor"
  ["bold", "strong"], ["italic", "em"], ["underline", "u"], ["strikethrough", "s"], ["code", "code"], ["pre", "pre"],
]);
const LONG_QUOTE = 180; // characters shown of a folded quote, about three lines
const MOST_ENTITIES = 100; // Telegram's limit: thousands of overlapping ones would block the page

// Returns nodes. `on` has post(url), link(event, url), command(text).
export function shown(text, entities, on) {
  const sorted = [...(entities ?? [])]
    .filter((e) => e.length > 0 && e.offset >= 0 && e.offset + e.length <= text.length)
    .slice(0, MOST_ENTITIES)
    .sort((a, b) => a.offset - b.offset || b.length - a.length);
  return between(text, 0, text.length, sorted, on);
}

function between(text, start, end, entities, on) {
  const nodes = [];
  let at = start, queue = entities;
  while (queue.length) {
    const [entity, ...rest] = queue;
    const stop = Math.min(entity.offset + entity.length, end);
    const inner = [], later = [];
    for (const other of rest) {
      const otherEnd = other.offset + other.length;
      if (other.offset >= stop) later.push(other);
      else if (otherEnd <= stop) inner.push(other);
      else {
        inner.push({ ...other, length: stop - other.offset });
        later.push({ ...other, offset: stop, length: otherEnd - stop });
      }
    }
    if (entity.offset > at) nodes.push(unbroken(text.slice(at, entity.offset)));
    const content = between(text, entity.offset, stop, inner, on);
    nodes.push(wrapped(entity, text.slice(entity.offset, stop), content, on));
    at = stop;
    queue = later;
    if (isBlock(entity) && at < end && text[at] === "\n") at += 1;
  }
  if (at < end) nodes.push(unbroken(text.slice(at, end)));
  return nodes;
}

// A short number stays on the line of what follows it: "2 November", "350 ₽", "2 750".
export const unbroken = (piece) => piece.replace(/(?<![\p{L}\d])(\d{1,3}) (?=[\p{L}\p{Sc}]|\d{3}(?!\d))/gu, "$1\u00a0");

const isBlock = (entity) => ["blockquote", "expandable_blockquote", "pre"].includes(entity.type);

function wrapped(entity, piece, content, on) {
  switch (entity.type) {
    case "text_link": return link(entity.url, piece, content, on);
    case "url": return link(piece, piece, content, on);
    case "mention": return link(`https://t.me/${piece.slice(1)}`, piece, content, on);
    case "bot_command": return command(piece, content, on);
    case "quoted": return make("mark", { class: "quoted" }, ...content);
    case "spoiler": return spoiler(content);
    case "blockquote": return make("blockquote", {}, ...content);
    case "expandable_blockquote": return folded(piece, content);
    case "hashtag": case "cashtag": case "email": return make("span", { class: "tag" }, ...content);
    default: return make(TAGS.get(entity.type) ?? "span", {}, ...content);
  }
}

export function link(url, piece, content, on) {
  const address = followed(url);
  if (!address) return make("span", {}, ...content);
  const post = on.post(address);
  const number = post && /^\[?\d{1,3}\]?$/.test(piece.trim());
  return make("a", {
    href: address.href, target: "_blank", rel: "noopener noreferrer",
    class: post ? `citation${number ? " number" : ""}` : undefined,
    onclick: (event) => on.link(event, address),
  }, ...content);
}

const command = (piece, content, on) =>
  make("button", { class: "command", type: "button", onclick: () => on.command(piece) }, ...content);

export function spoiler(content) {
  const open = () => box.classList.add("open");
  const box = make("span", { class: "spoiler", role: "button", tabindex: "0", onclick: open }, ...content);
  box.addEventListener("keydown", (event) => event.key === "Enter" && open());
  return box;
}

export function folded(piece, content) {
  const box = make("blockquote", { class: "expandable" }, make("div", { class: "inside" }, ...content));
  if (piece.length > LONG_QUOTE || piece.split("\n").length > 3) {
    const toggle = make("button", {
      class: "unfold", type: "button", text: say("more"), "aria-expanded": "false",
      onclick() {
        const open = box.classList.toggle("open");
        toggle.textContent = say(open ? "less" : "more");
        toggle.setAttribute("aria-expanded", String(open));
      },
    });
    box.classList.add("long");
    box.append(toggle);
  }
  return box;
}
