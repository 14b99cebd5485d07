// What is observed of the bot's work. Below an answer, folded, how it was found: its posts with their passages and, in
// words, by what each was found. On new posts a tick where they can be found, and a line on top of their channel.

import { icon, make } from "./dom.js";
import { store } from "./store.js";
import { counted, say, wholeDate } from "./translations.js";

const keyOf = (message) => `${message.chat.id}/${message.message_id}`;

const LEGS = { lexical: "legLexical", dense: "legDense", both: "legBoth", "": "legNone" };
const unfolded = new Set(); // answers whose posts are shown

export const foundSign = (message) => store.found.get(keyOf(message)) ?? null;

// Strip under an answer; null if the search was not observed.
export function howFound(message, on) {
  const answer = keyOf(message), found = foundSign(message);
  if (!found?.length) return null;
  const panel = make("div", { class: "sources" });
  const toggle = make("button", { class: "how", type: "button" }, icon("sources"),
    make("span", { text: say("howFound") }), icon("down"));
  const paint = () => {
    const open = unfolded.has(answer);
    toggle.setAttribute("aria-expanded", String(open));
    panel.hidden = !open;
    if (open && !panel.firstChild) panel.append(...sources(found, on));
  };
  toggle.addEventListener("click", () => {
    on.hold(); // what is read stays where it is
    if (!unfolded.delete(answer)) unfolded.add(answer);
    paint();
  });
  paint();
  return make("div", { class: "found" }, toggle, panel);
}

function sources(found, on) {
  const cited = found.filter((one) => one.number), others = found.filter((one) => !one.number);
  const gap = cited.length && others.length ? [make("p", { class: "aside", text: say("notCited") })] : [];
  return [...cited.map((one) => source(one, on)), ...gap, ...others.map((one) => source(one, on))];
}

function source(one, on) {
  const [chat, message] = one.post, title = store.chats.get(chat)?.title ?? String(chat);
  const head = make("button", { class: "from", type: "button", onclick: () => on.jump(chat, message) },
    one.number ? make("b", { class: "number", text: String(one.number) }) : null,
    make("span", { class: "title", text: title }), make("time", { text: wholeDate(one.date, store.zone) }));
  const passage = make("p", { class: `passage${one.number ? "" : " long"}`, dir: "auto" },
    ...one.pieces.map(([text, quoted]) => (quoted ? make("mark", { text }) : text)));
  const data = { post: one.post.join("/") };
  return make("section", { class: "source", data }, head, make("p", { class: "leg", text: say(LEGS[one.leg]) }), passage);
}

const legs = () => Object.keys(store.indexing);
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
