// Draw the blocks of a rich message. A footnote mark opens its note below the block that it stands in.

import { make } from "./dom.js";
import { folded, link, spoiler, unbroken } from "./text.js";
import { fully, say } from "./translations.js";

const TAGS = new Map([
  ["bold", "strong"], ["italic", "em"], ["underline", "u"], ["strikethrough", "s"], ["code", "code"],
  ["marked", "mark"], ["superscript", "sup"], ["subscript", "sub"],
]);
const PARTS = ["text", "credit", "summary", "caption", "blocks", "items", "cells"];

export function richBlocks(message, on) {
  const all = message.blocks.flatMap((block) => [block, ...(block.blocks ?? [])]);
  const notes = new Map(all.filter((one) => one.text?.type === "reference").map((one) => [one.text.name, one]));
  return message.blocks.map((block) => drawn(block, { notes, on }));
}

// The words alone: blocks and cells on lines of their own.
export function wordsOf(part) {
  if (typeof part === "string") return part;
  if (Array.isArray(part)) return part.map(wordsOf).join(part.some((one) => typeof one === "string") ? "" : "\n");
  return PARTS.filter((name) => part[name]).map((name) => wordsOf(part[name])).join("\n");
}

function drawn(block, look) {
  const words = block.text ? inline(block.text, look) : [], nested = (block.blocks ?? []).map((one) => drawn(one, look));
  switch (block.type) {
    case "heading": return make("p", { class: "block heading", role: "heading", "aria-level": block.size + 1 }, ...words);
    case "thinking": return make("p", { class: "block thinking" }, ...words);
    case "divider": return make("hr", { class: "block" });
    case "blockquote": return credited(make("blockquote", { class: "block" }, ...nested), block, look);
    case "expandable_blockquote": {
      const box = folded(wordsOf(block.text), words);
      box.classList.add("block");
      return credited(box, block, look);
    }
    case "details": return make("details", { class: "block", open: block.is_open },
      make("summary", {}, ...inline(block.summary, look)), ...nested);
    case "list": return make("ul", { class: "block" },
      ...block.items.map((item) => make("li", {}, ...item.blocks.map((one) => drawn(one, look)))));
    case "table": return make("table", { class: "block rich" }, make("tbody", {},
      ...block.cells.map((row) => make("tr", {}, ...row.map((cell) => drawnCell(cell, look))))));
    default: return make("p", { class: "block" }, ...words, ...nested);
  }
}

function credited(box, { credit }, look) {
  if (credit) box.append(make("footer", { class: "credit" }, ...inline(credit, look)));
  return box;
}

const drawnCell = (cell, look) =>
  make(cell.is_header ? "th" : "td", { colspan: cell.colspan, rowspan: cell.rowspan }, ...inline(cell.text ?? "", look));

function inline(text, look) {
  if (typeof text === "string") return [unbroken(text)];
  if (Array.isArray(text)) return text.flatMap((one) => inline(one, look));
  const inside = inline(text.text ?? "", look);
  switch (text.type) {
    case "url": return [link(text.url, wordsOf(text.text), inside, look.on)];
    case "spoiler": return [spoiler(inside)];
    case "reference": return inside;
    case "reference_link": return [footnote(text, inside, look)];
    case "date_time": return [make("time", {
      datetime: new Date(text.unix_time * 1000).toISOString(), title: fully(text.unix_time) }, ...inside)];
    default: return [make(TAGS.get(text.type) ?? "span", {}, ...inside)];
  }
}

function footnote({ text, reference_name: name }, inside, look) {
  const block = look.notes.get(name);
  if (!block) return make("span", {}, ...inside);
  let note = null;
  const mark = make("button", {
    class: "footnote", type: "button", "aria-expanded": "false", "aria-label": `${say("note")} ${wordsOf(text)}`,
    onclick() {
      look.on.hold();
      if (note) note.remove();
      note = note ? null : make("aside", { class: "note", role: "note" },
        credited(make("blockquote", {}, ...inline(block.text, look)), block, look));
      if (note) mark.closest(".block").after(note);
      mark.setAttribute("aria-expanded", String(Boolean(note)));
    },
  }, ...inside);
  mark.addEventListener("keydown", (event) => event.key === "Escape" && note && mark.click());
  return mark;
}
