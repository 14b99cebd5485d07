// How an answer was found: its posts with their passages and, in words, by what each was found; folded below the answer.

import { icon, make } from "./dom.js";
import { store } from "./store.js";
import { say, wholeDate } from "./translations.js";

const LEGS = { lexical: "legLexical", dense: "legDense", both: "legBoth", "": "legNone" };
const unfolded = new Set(); // answers whose posts are shown

export const foundSign = (message) => store.found.get(`${message.chat.id}/${message.message_id}`) ?? null;

// Strip under an answer; null if the search was not observed.
export function howFound(message, on) {
  const answer = `${message.chat.id}/${message.message_id}`, found = foundSign(message);
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
