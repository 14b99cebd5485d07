// How an answer was found: its sources with their passages and retrievers.

import { icon, make } from "./dom.js";
import { store } from "./store.js";
import { chosen, lang, say, shortDate } from "./words.js";

const LEGS = { lexical: "legLexical", dense: "legDense", both: "legBoth", "": "legNone" };
const unfolded = new Map(); // opened or closed by the user, by question

export const isFoundOn = () => chosen.get("found") === "on";

const questionOf = (message) => {
  const asked = message.from?.id === store.bot?.id ? message.reply_to_message : null;
  return asked ? `${message.chat.id}/${asked.message_id}` : null;
};
const isOpen = (question) => unfolded.get(question) ?? isFoundOn();

export const foundSign = (message) => {
  const found = store.found.get(questionOf(message));
  return found ? [isFoundOn(), found] : null;
};

// The switch of a conversation: details open under every answer, or not. The choice is stored.
export function foundSwitch(changed) {
  const flip = () => {
    chosen.set("found", isFoundOn() ? "off" : "on");
    unfolded.clear();
    changed();
  };
  const labels = { title: say("howFoundHint"), "aria-label": say("howFoundHint") };
  return make("button", {
    class: "switch", type: "button", role: "switch", "aria-checked": String(isFoundOn()), onclick: flip, ...labels,
  }, icon("sources"), make("span", { class: "label", text: say("howFound") }), make("i", { class: "track" }));
}

// Details under an answer; null if the search was not observed.
export function howFound(message, on) {
  const question = questionOf(message), found = store.found.get(question);
  if (!found) return null;
  const panel = make("div", { class: "sources" });
  const toggle = make("button", { class: "how", type: "button" }, icon("sources"),
    make("span", { text: say("howFound") }), ...tally(found), icon("down"));
  const box = make("div", { class: "found" }, toggle, panel);
  const paint = () => {
    const open = isOpen(question);
    toggle.setAttribute("aria-expanded", String(open));
    panel.hidden = !open;
    if (open && !panel.firstChild) panel.append(...sources(found, on));
  };
  toggle.addEventListener("click", () => {
    unfolded.set(question, !isOpen(question));
    paint();
    panel.scrollIntoView({ block: "nearest" });
    toggle.scrollIntoView({ block: "nearest" });
  });
  paint();
  return box;
}

// One dot for each source, in the colour of its retriever.
const tally = (found) =>
  [make("span", { class: "tally", "aria-hidden": "true" }, ...found.map((one) => make("i", { class: legOf(one) })))];

const legOf = (one) => `leg-${one.leg || "none"}`;

function sources(found, on) {
  const cited = found.filter((one) => one.number), others = found.filter((one) => !one.number);
  if (!found.length) return [make("p", { class: "aside", text: say("nothingFound") })];
  const gap = cited.length && others.length ? [make("p", { class: "aside", text: say("notCited") })] : [];
  return [...cited.map((one) => source(one, on)), ...gap, ...others.map((one) => source(one, on))];
}

function source(one, on) {
  const [chat, message] = one.post, title = store.chats.get(chat)?.title ?? String(chat);
  const head = make("button", { class: "from", type: "button", onclick: () => on.jump(chat, message) },
    one.number ? make("b", { class: "number", text: String(one.number) }) : null,
    make("span", { class: "title", text: title }), make("time", { text: shortDate(one.date) }));
  const hint = say(`${LEGS[one.leg]}Hint`);
  const leg = make("span", { class: `leg ${legOf(one)}`, title: hint, text: say(LEGS[one.leg]) });
  const passage = make("p", { class: `passage${one.number ? "" : " long"}`, dir: "auto" },
    ...one.pieces.map(([text, quoted]) => (quoted ? make("mark", { text }) : text)));
  passage.addEventListener("click", () => passage.classList.remove("long"));
  const bars = one.leg ? make("div", { class: "bars" }, bar("fit", one.score), bar("likeness", one.likeness)) : null;
  const data = { post: one.post.join("/") };
  return make("section", { class: "source", data }, make("div", { class: "line" }, head, leg), passage, bars);
}

function bar(name, share) {
  if (share <= 0) return null;
  const value = share.toLocaleString(lang, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const meter = make("meter", { min: "0", max: "1", value: String(share), "aria-label": say(name) });
  return make("span", { class: "measure", title: say(`${name}Hint`) }, make("span", { text: say(name) }), meter, value);
}
