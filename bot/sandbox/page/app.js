// Entry point: the chat list, the conversation, and beside it the post behind a citation.

import { isOwn } from "./bubble.js";
import { toast } from "./dom.js";
import { Pane } from "./pane.js";
import { closeMenu, onMenuKey, openMenu, renderChats, renderWho } from "./sidebar.js";
import { act, become, postBehind, store, watch } from "./store.js";
import { chosen, lang, say, useLanguage } from "./translations.js";

useLanguage(chosen.get("lang"));
const $ = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 759px)");

// The fragment after # is "main chat" or "main chat / source chat / message", and "list" for the list on a phone.
function place() {
  const [main, source, message] = location.hash.slice(1).split("/").filter(Boolean).map(Number);
  return { main: main ?? null, source: source ?? null, message: message ?? null };
}

function go({ main, source = null, message = null }) {
  const next = `#${[main, source, message].filter((part) => part !== null).join("/")}`;
  if (next === location.hash) show();
  else location.hash = next;
}

// Click handlers of a pane.
const on = (pane) => ({
  post: (url) => postBehind(url)?.message,
  link(event, url) {
    const behind = postBehind(url);
    if (!behind) return;
    event.preventDefault();
    if (behind.chat) this.jump(behind.chat.id, behind.message);
    else toast(say("closed"));
  },
  jump(chat, message, quote = null) {
    if (!store.chats.has(chat)) return toast(say("closed"));
    store.quoted = quote && { chat, message, text: quote.text, position: quote.position };
    go({ main: main.chat, source: chat, message });
  },
  back: () => (pane === source ? go({ main: main.chat }) : (location.hash = "list")),
  hold: () => pane.hold(),
  inMain: (chat) => go({ main: chat }),
  // Only in the bot's own conversation: a command in a post would be sent by its author in the user's name.
  command: (text) => pane === main && main.chat === store.user && main.composer?.send(text),
  reply: (message) => main.composer?.reply(message),
  async edit(message) {
    await main.open(message.chat.id);
    go({ main: message.chat.id });
    main.composer?.edit(message);
  },
  remove: (message) => act("delete", { chat: message.chat.id, message: message.message_id }, toast),
  async forward(message) {
    const which = { text: "", forward_of: [message.chat.id, message.message_id] };
    if (await act("say", which, toast)) toast(say("forwardedDone"));
  },
  share(message) {
    const { username, id } = message.chat;
    this.copy(`https://t.me/${username ?? `c/${String(id).replace("-100", "")}`}/${message.message_id}`);
  },
  copy: (text) => navigator.clipboard?.writeText(text).then(() => toast(say("copied")), () => toast(text)),
  inline: (query) => main.composer?.inline(query), // the client asks for a chat first: here it is the open one
  failed: (reason) => toast(reason),
  answered(answer) {
    if (!answer) toast(say("silence"));
    else if (answer.alert) notify(answer.text);
    else if (answer.text) toast(answer.text);
  },
});

const main = new Pane($("main"), { on });
const source = new Pane($("source"), { on, aside: true });
let ready = false, opener = null;

async function show() {
  const wanted = place(), known = (id) => id !== null && store.chats.has(id);
  const listed = location.hash === "#list" && narrow.matches;
  if (!known(wanted.main) && !listed && store.chats.size) wanted.main = store.user;
  const beside = known(wanted.source) && wanted.source !== wanted.main;
  document.body.dataset.view = beside ? "source" : known(wanted.main) ? "main" : "list";
  $("source").hidden = !beside;
  if (!beside) source.chat = null;
  if (wanted.source !== null && !known(wanted.source)) toast(say("closed"));
  const here = wanted.source === wanted.main ? wanted.message : null;
  if (!known(wanted.main)) main.chat = null;
  else if (!(await main.open(wanted.main, here))) toast(say("deleted"));
  if (beside && !(await source.open(wanted.source, wanted.message))) toast(say("deleted"));
  listChats();
  moveFocus(beside);
}

// The focus goes along with a post that opens beside, and back to the citation that opened it.
function moveFocus(beside) {
  const now = document.activeElement;
  if (beside && !$("source").contains(now)) {
    opener = now;
    source.scroll.focus({ preventScroll: true });
  } else if (!beside && opener?.isConnected) {
    opener.focus({ preventScroll: true });
    opener = null;
  } else if (!beside && !narrow.matches) main.composer?.focus();
}

const listChats = () => renderChats({ open: main.chat, beside: source.chat, go });

// Person and language go together: each brings the other.
function asUser(id) {
  const person = store.people.find((one) => one.id === id);
  chosen.set("user", id);
  if (person?.language_code) chosen.set("lang", person.language_code);
  location.assign("/");
}

const speaking = (code, leads) =>
  store.people.find((one) => one.language_code === code && one.leads === leads)
  ?? store.people.find((one) => one.language_code === code) ?? store.people[0];

function asLanguage(code) {
  const me = store.people.find((one) => one.id === store.user);
  chosen.set("lang", code);
  chosen.set("user", speaking(code, me.leads).id);
  location.assign("/");
}

function notify(text) {
  $("alert").querySelector("p").textContent = text;
  $("alert").querySelector("button").textContent = say("ok");
  $("alert").showModal();
}

function paint() {
  const theme = chosen.get("theme") ?? "auto";
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function countUnread(fresh) {
  for (const message of fresh) {
    const chat = message.chat.id;
    if ([main.chat, source.chat].includes(chat) || isOwn(message)) continue;
    store.unread.set(chat, (store.unread.get(chat) ?? 0) + 1);
  }
}

watch((fresh) => {
  if (store.people.length && !store.people.some((one) => one.id === store.user)) return become(speaking(lang, false).id);
  $("notice").hidden = store.online;
  $("notice").textContent = say("lost");
  countUnread(fresh);
  renderWho();
  if (!ready && store.people.length) {
    ready = true;
    show();
  }
  main.refresh(fresh);
  source.refresh(fresh);
  listChats();
});

addEventListener("hashchange", show);
narrow.addEventListener("change", show);
$("who").addEventListener("click", () => ($("menu").hidden ? openMenu({ asUser, asLanguage, paint }) : closeMenu()));
$("menu").addEventListener("keydown", onMenuKey);
$("search").placeholder = say("search");
$("search").setAttribute("aria-label", say("search"));
$("search").addEventListener("input", listChats);
addEventListener("click", (event) => event.target.closest?.("#menu, #who") ?? closeMenu());
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (!$("source").hidden && !event.target.closest?.(".composer")) go({ main: main.chat });
});
paint();
become(Number(chosen.get("user") ?? 0));
