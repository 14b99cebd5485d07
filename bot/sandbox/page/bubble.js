// Bubble of a message or album.

import { avatar, button, followed, icon, make } from "./dom.js";
import { findability, howFound } from "./observed.js";
import { richBlocks, wordsOf } from "./rich.js";
import { act, quotedIn, store, zoneOf } from "./store.js";
import { shown } from "./text.js";
import { clock, fully, say } from "./translations.js";

const SERVICE = ["new_chat_members", "left_chat_member"];

export const isService = (message) => SERVICE.some((name) => name in message);
export const isOwn = (message) => message.from?.id === store.user;
export const textOf = (message) =>
  message.text ?? message.caption ?? (message.rich_message ? wordsOf(message.rich_message.blocks) : "");
export const authorOf = (message) => message.sender_chat?.title ?? message.from?.first_name ?? "";

// One-line summary for lists and replies.
export function summary(message) {
  if (isService(message)) return serviceText(message);
  if (textOf(message)) return textOf(message).replace(/\s+/g, " ");
  const attached = message.document ?? message.audio;
  if (attached) return attached.file_name ?? say("document");
  return message.photo ? say("photo") : "";
}

export function serviceText(message) {
  const name = (person) => person.first_name;
  if (message.new_chat_members) return `${message.new_chat_members.map(name).join(", ")} ${say("joined")}`;
  return `${name(message.left_chat_member)} ${say("left")}`;
}

const originName = (origin) =>
  origin.chat?.title ?? origin.sender_chat?.title ?? origin.sender_user_name ?? origin.sender_user?.first_name ?? "";

// `group` is an album's messages, or one message. `on` has the click handlers.
export function bubble(group, { first, last, chat, on }) {
  const main = group.find((message) => textOf(message)) ?? group[0];
  const own = isOwn(main), author = authorOf(main);
  const named = first && !own && chat.type === "supergroup";
  const body = make("div", { class: "bubble" });
  if (named) body.append(make("div", { class: "author", text: author }));
  if (main.via_bot) body.append(make("div", { class: "forwarded", text: `${say("via")} @${main.via_bot.username}` }));
  if (main.forward_origin) body.append(forwarded(main.forward_origin, on));
  if (main.reply_to_message || main.external_reply) body.append(replied(main, on));
  const photos = group.filter((message) => message.photo);
  if (photos.length) body.append(tiles(photos, main));
  if (main.document ?? main.audio) body.append(file(main.document ?? main.audio));
  const entities = [...((main.text !== undefined ? main.entities : main.caption_entities) ?? []), ...quotedIn(main)];
  const words = main.rich_message ? richBlocks(main.rich_message, on) : shown(textOf(main), entities, on);
  body.append(make("div", { class: "text", dir: "auto" }, ...words, meta(main)));
  if (main.reactions) body.append(reactions(main.reactions));
  const found = howFound(main, on);
  if (found) body.append(found);
  const column = make("div", { class: "column" }, body, main.reply_markup ? keyboard(main, on) : null);
  const row = make("article", {
    "aria-label": `${own ? say("you") : author}, ${fully(main.date, zoneOf(chat))}`,
    class: `message ${own ? "own" : "theirs"}${first ? " first" : ""}${last ? " last" : ""}`,
    data: { message: `${main.chat.id}/${main.message_id}` },
  });
  if (chat.type === "supergroup" && !own) {
    row.append(last ? avatar(main.from ?? chat, "small") : make("span", { class: "avatar small none" }));
  }
  row.append(column, actions(main, chat, own, on));
  return row;
}

function meta(message) {
  const time = { datetime: new Date(message.date * 1000).toISOString(), title: fully(message.date, zoneOf(message.chat)) };
  return make("span", { class: "meta" },
    message.author_signature ? `${message.author_signature}, ` : null,
    message.ephemeral_message_id ? `${say("onlyYou")} ` : null,
    message.edit_date ? `${say("edited")} ` : null,
    make("time", { ...time, text: clock(message.date, zoneOf(message.chat)) }),
    findability(message));
}

function forwarded(origin, on) {
  const known = origin.chat && origin.message_id && store.chats.has(origin.chat.id);
  const go = () => on.jump(origin.chat.id, origin.message_id);
  const name = known
    ? make("button", { class: "plain", type: "button", text: originName(origin), onclick: go })
    : make("span", { class: "name", text: originName(origin) });
  return make("div", { class: "forwarded" }, `${say("forwarded")} `, name);
}

function replied(message, on) {
  const inner = message.reply_to_message, outer = message.external_reply;
  const name = inner ? authorOf(inner) : originName(outer.origin);
  const quote = message.quote;
  const words = quote ? shown(quote.text, quote.entities, on) : inner ? [summary(inner)] : [];
  const go = inner
    ? () => on.jump(inner.chat.id, inner.message_id, quote)
    : () => outer.chat && outer.message_id && on.jump(outer.chat.id, outer.message_id, quote);
  return make("button", { class: `replied${quote ? " quoted" : ""}`, type: "button", onclick: go },
    make("span", { class: "name", text: name }), make("span", { class: "words", dir: "auto" }, ...words));
}

function tiles(photos, main) {
  const tile = (message) => make("span", {
    class: "tile", role: "img", "aria-label": say("photo"),
    data: message === main ? {} : { message: `${message.chat.id}/${message.message_id}` },
  }, picture(message.photo.at(-1)) ?? icon("image"));
  return make("div", { class: `tiles n${Math.min(photos.length, 4)}` }, ...photos.map(tile));
}

// Pictures of the samples have no bytes, those that were attached here have.
const picture = (size) =>
  size.file_name ? make("img", { src: `/sandbox/picture/${size.file_id}`, alt: size.file_name }) : null;

const file = (document) => make("div", { class: "file" },
  make("span", { class: "sheet" }, icon("file")),
  make("span", { class: "name", text: document.file_name ?? say("document") }));

function reactions(counts) {
  const one = ([emoji, count]) =>
    make("span", { class: "reaction" }, emoji, count > 1 ? make("b", { text: String(count) }) : null);
  return make("div", { class: "reactions" }, ...Object.entries(counts).map(one));
}

function keyboard(message, on) {
  const one = (spec) => {
    const look = { class: `key ${spec.style ?? ""}` }, address = followed(spec.url ?? "");
    if (spec.url && address) {
      const link = { href: address.href, target: "_blank", rel: "noopener noreferrer" };
      return make("a", { ...look, ...link, onclick: (event) => on.link(event, address) }, spec.text, icon("open"));
    }
    const key = make("button", { ...look, type: "button", text: spec.text });
    const shared = spec.switch_inline_query_chosen_chat;
    key.addEventListener("click", () => {
      if (spec.copy_text) on.copy(spec.copy_text.text);
      else if (shared) on.inline(shared.query);
      else press(key, spec, message, on);
    });
    return key;
  };
  return make("div", { class: "keyboard" },
    ...message.reply_markup.inline_keyboard.map((row) => make("div", { class: "keys" }, ...row.map(one))));
}

async function press(key, spec, message, on) {
  key.classList.add("busy");
  const place = { chat: message.chat.id, message: message.key ?? message.message_id, data: spec.callback_data };
  const told = await act("press", place, on.failed);
  key.classList.remove("busy");
  if (told) on.answered(told.answer);
}

function actions(message, chat, own, on) {
  const box = make("div", { class: "actions" });
  if (chat.type !== "channel") box.append(button("reply", say("reply"), () => on.reply(message), "mini"));
  if (chat.type === "channel") {
    box.append(button("forward", say("forward"), () => on.forward(message), "mini"));
    box.append(button("link", say("copy"), () => on.share(message), "mini"));
  }
  const mine = chat.type === "channel" ? chat.can_post : own && !message.ephemeral_message_id;
  if (mine && textOf(message)) box.append(button("edit", say("edit"), () => on.edit(message), "mini"));
  if (mine) box.append(button("close", say("remove"), () => on.remove(message), "mini"));
  return box;
}
