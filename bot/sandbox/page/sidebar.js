// Sidebar: the current user, the chat list, and the menu of people, language and colours.

import { isOwn, summary } from "./bubble.js";
import { avatar, icon, make } from "./dom.js";
import { alive, lastOf, store, zoneOf } from "./store.js";
import { chosen, lang, say, shortly } from "./translations.js";

const $ = (id) => document.getElementById(id);

// Chat list: the bot first, then by newest message. `open` and `beside` are ids of shown chats.
export function renderChats({ open, beside, go }) {
  const last = (chat) => lastOf(chat.id)?.date ?? 0;
  const wanted = $("search").value.trim().toLowerCase();
  const named = (chat) => `${chat.title} @${chat.username ?? ""} ${summaryOf(chat)}`.toLowerCase().includes(wanted);
  const order = [...store.chats.values()].filter(named).sort((a, b) => Boolean(b.is_bot) - Boolean(a.is_bot) || last(b) - last(a));
  const held = document.activeElement?.dataset?.chat;
  const nobody = make("p", { class: "nobody", text: say("noChats") });
  $("chats").replaceChildren(...(order.length ? order.map((chat) => chatRow(chat, { open, beside, go })) : [nobody]));
  if (held) $("chats").querySelector(`[data-chat="${held}"]`)?.focus();
}

function chatRow(chat, { open, beside, go }) {
  const message = lastOf(chat.id), unread = store.unread.get(chat.id), kind = kindOf(chat);
  const shown = chat.id === open ? " open" : chat.id === beside ? " beside" : "";
  const above = make("span", { class: "line" },
    make("span", { class: "title" }, kind ? icon(kind) : null, make("span", { text: chat.title })),
    message ? make("time", { text: shortly(message.date, zoneOf(chat)) }) : null);
  const under = make("span", { class: "line" }, words(chat, message),
    unread ? make("span", { class: "badge", text: String(unread) }) : null);
  const row = make("button", {
    class: `chat${shown}`, type: "button", data: { chat: chat.id },
    "aria-current": chat.id === open ? "true" : null, onclick: () => go({ main: chat.id }),
  }, avatar(chat), make("span", { class: "lines" }, above, under));
  return make("div", { role: "listitem" }, row);
}

const summaryOf = (chat) => (lastOf(chat.id) ? summary(lastOf(chat.id)) : "");

function kindOf(chat) {
  if (chat.type === "channel") return chat.username ? "channel" : "lock";
  return chat.type === "supergroup" ? "group" : null;
}

function words(chat, message) {
  if (alive(store.actions).some((one) => one.chat === chat.id)) {
    return make("span", { class: "words live", text: say("typing") });
  }
  if (!message) {
    const nothing = chat.is_bot ? "bot" : chat.type === "channel" ? "emptyChannel" : "emptyGroup";
    return make("span", { class: "words", text: say(nothing, store.bot.username) });
  }
  const name = isOwn(message) ? say("you") : chat.type === "supergroup" ? message.from?.first_name : null;
  return make("span", { class: "words", text: `${name ? `${name}: ` : ""}${summary(message)}` });
}

const roleOf = (person) => say(person.leads ? "leads" : "reads");
const named = (name, under) => make("span", { class: "names" }, make("b", { text: name }), make("small", { text: under }));

// Who one is, and who of the same language one may be instead.
export function renderWho() {
  const me = store.people.find((one) => one.id === store.user);
  if (!me) return;
  const other = store.people.find((one) => one.language_code === me.language_code && one.leads !== me.leads);
  const change = other ? `${say("become")} ${other.first_name}, ${roleOf(other)}` : "";
  $("who").replaceChildren(avatar(me), named(`${say("youAre")} ${me.first_name}, ${roleOf(me)}`, change), icon("down"));
}

// Menu under the user's name. `asUser` and `asLanguage` switch, `paint` applies the chosen colours.
export function openMenu({ asUser, asLanguage, paint }) {
  const choice = (kind, on, pick, ...content) => make("button", {
    type: "button", role: "menuitemradio", class: kind, "aria-checked": String(on), onclick: () => (closeMenu(), pick()),
  }, ...content);
  const person = (one) => choice("person", one.id === store.user, () => asUser(one.id),
    avatar(one), named(one.first_name, roleOf(one)), one.id === store.user ? icon("check") : null);
  const pair = (name, options, now, pick) => {
    const one = ([value, label]) => choice("pick", value === now, () => pick(value), label);
    const segments = make("div", { class: "segments", role: "group", "aria-label": say(name) }, ...options.map(one));
    return make("div", { class: "pair" }, make("span", { text: say(name), "aria-hidden": "true" }), segments);
  };
  const themes = ["Auto", "Light", "Dark"].map((one) => [one.toLowerCase(), say(`theme${one}`)]);
  const here = (one) => Number(one.language_code === lang);
  const people = [...store.people].sort((a, b) => here(b) - here(a));
  $("menu").replaceChildren(...people.map(person), make("hr"),
    pair("language", [["en", "English"], ["ru", "Русский"]], lang, asLanguage),
    pair("theme", themes, chosen.get("theme") ?? "auto", (value) => (chosen.set("theme", value), paint())));
  $("menu").hidden = false;
  $("who").setAttribute("aria-expanded", "true");
  $("menu").querySelector("[aria-checked=true]")?.focus();
}

export function closeMenu() {
  if ($("menu").contains(document.activeElement)) $("who").focus();
  $("menu").hidden = true;
  $("who").setAttribute("aria-expanded", "false");
}

// Keys of a menu: arrows move, Escape and Tab close.
export function onMenuKey(event) {
  const items = [...$("menu").querySelectorAll("button")], at = items.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (step) items[(at + step + items.length) % items.length].focus();
  else if (["Escape", "Tab"].includes(event.key)) closeMenu();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
