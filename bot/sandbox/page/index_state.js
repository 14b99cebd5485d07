// Index state: a tick on each new post that can be found, and a line on top of its channel.

import { icon, make } from "./dom.js";
import { store } from "./store.js";
import { counted, say } from "./translations.js";

const legs = () => Object.keys(store.indexing);
const keyOf = (message) => `${message.chat.id}/${message.message_id}`;
const isDone = (found) => legs().every((leg) => found.includes(leg));

export const findableSign = (message) => store.findable[keyOf(message)] ?? null;

// For a post added or edited since the bot began; null for others.
export function findability(message) {
  const found = findableSign(message);
  if (!found) return null;
  if (isDone(found)) {
    return make("span", { class: "findable done", title: say("findable") }, icon("check"),
      make("span", { class: "word", text: say("findable") }));
  }
  const half = { lexical: "findableByWords", dense: "findableByMeaning" }[found[0]] ?? "indexing";
  return make("span", { class: "findable", title: say(half) }, make("i", { class: "pulse" }),
    make("span", { class: "word", text: say(half) }));
}

// The line of a channel. Hidden if no bot reports its progress.
export function howFar(line, chat) {
  const waiting = Object.values(store.indexing).map((leg) => leg.waiting);
  const known = chat.type === "channel" && waiting.length > 0;
  const pending = Object.values(store.findable).filter((found) => !isDone(found)).length;
  const left = Math.max(pending, ...waiting);
  const sign = known ? `${chat.id} ${left}` : "";
  if (line.dataset.sign === sign) return;
  line.dataset.sign = sign;
  line.hidden = !known;
  line.className = `far ${left ? "busy" : "done"}`;
  const words = left ? `${say("indexing")} ${counted(left, "changesToGo")}` : say("indexed");
  line.replaceChildren(left ? make("i", { class: "pulse" }) : icon("check"), make("span", { text: words }));
}
